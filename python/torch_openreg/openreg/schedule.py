"""When work runs: three schedules, for the whole process.

``async``, the default: operators return before they have run. ``blocking``: an operator has run when its call
returns, so an error is raised at its own line. ``adversarial``: streams are delayed and interleaved as badly
as the ordering rules permit, decided by the seed, to bring out synchronization that the program lacks.

The environment decides at first: ``OPENREG_SCHEDULE`` is one of these names, ``OPENREG_SEED`` a number.
"""

from typing import NamedTuple

from torch_openreg import _C

SCHEDULES = ("async", "blocking", "adversarial")  # in the order of the runtime's codes


class Schedule(NamedTuple):
    name: str
    seed: int


def get_schedule() -> Schedule:
    """The schedule in force and its seed. ``set_schedule(*get_schedule())`` changes nothing."""
    code, seed = _C.get_schedule()
    return Schedule(SCHEDULES[code], seed)


def set_schedule(name: str, seed: int = 0) -> None:
    """Work that is submitted from now on, by any thread, follows the schedule."""
    if name not in SCHEDULES:
        raise ValueError(f"there is no schedule {name!r}: use one of {', '.join(map(repr, SCHEDULES))}")
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"the seed is {seed}: use a number from 0 to 2**64 - 1")
    _C.set_schedule(SCHEDULES.index(name), seed)


class schedule:
    """Sets the schedule for a ``with`` block, and the one before it afterwards. Blocks may nest."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self._inside = Schedule(name, seed)

    def __enter__(self) -> None:
        self._before = get_schedule()
        set_schedule(*self._inside)

    def __exit__(self, *exception: object) -> None:
        set_schedule(*self._before)
