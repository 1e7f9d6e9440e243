"""Random numbers: each device has a generator whose state is a seed and an offset.

The numbers depend only on the order of launches, not on the schedule or the streams; see docs/guide/random.md.
"""

import functools
from collections.abc import Iterable

import torch

from torch_openreg import _C

from .device import DeviceLike, device_count, index_of


@functools.cache
def default_generator(index: int) -> torch.Generator:
    """The default generator of the device."""
    return _C.default_generator(index)


def __getattr__(name: str) -> tuple[torch.Generator, ...]:
    if name == "default_generators":
        return tuple(default_generator(index) for index in range(device_count()))
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    default_generator(_C.current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices; ``torch.manual_seed`` calls this."""
    for index in range(device_count()):
        default_generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device's generator with a non-deterministic seed."""
    default_generator(_C.current_device()).seed()


def seed_all() -> None:
    """Seeds the generators of all devices with one non-deterministic seed."""
    manual_seed_all(default_generator(_C.current_device()).seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return default_generator(_C.current_device()).initial_seed()


def get_rng_state(device: DeviceLike = None) -> torch.Tensor:
    """The state of a device's generator: a CPU tensor of 16 bytes."""
    return default_generator(index_of(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = None) -> None:
    default_generator(index_of(device)).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _get_rng_state_offset(device: DeviceLike = None) -> int:
    """The offset of a device's generator: the position in the sequence of its seed."""
    return default_generator(index_of(device)).get_offset()


def _set_rng_state_offset(offset: int, device: DeviceLike = None) -> None:
    """Sets the offset, a multiple of 4."""
    default_generator(index_of(device)).set_offset(offset)
