"""Device count, current device, device properties."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.compiler import is_dynamo_compiling

from torch_openreg import _C, _driver
from torch_openreg._name import DEVICE_NAME

from ._lazy import _lazy_init

DeviceLike = torch.device | str | int | None
_Function = TypeVar("_Function", bound=Callable[..., Any])


def index_of(device: DeviceLike) -> int:
    """The index of ``device``; the current device for ``None`` or a device without an index.

    A ``torch.openreg.device`` context is accepted too, as in ``torch.cuda``.
    """
    if device is None:
        return _C.current_device()
    if isinstance(device, int):
        return device
    if isinstance(device, _DeviceContext):
        return device.idx
    device = torch.device(device)
    if device.type != DEVICE_NAME:
        raise ValueError(f"Expected a {DEVICE_NAME} device, but got: {device}")
    return _C.current_device() if device.index is None else device.index


# Note [Compiled functions]
# Dynamo cannot trace the bindings, and would break the graph. In a function that it traces, functions of this module call
# the function of torch.accelerator, which it knows. Functions whose results do not change are called while tracing.
def constant_when_compiled(function: _Function) -> _Function:
    """As torch.compiler.assume_constant_result, without an import of Dynamo."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@constant_when_compiled
def is_available() -> bool:
    """Whether there is at least one device."""
    return device_count() > 0


@constant_when_compiled
def device_count() -> int:
    """The number of devices; 0 if the runtime has an error."""
    return _C.device_count()


def current_device() -> int:
    """The index of this thread's current device."""
    if is_dynamo_compiling():  # Note [Compiled functions]
        return torch.accelerator.current_device_index()
    _lazy_init()
    return _C.current_device()


def set_device(device: DeviceLike) -> None:
    """Makes ``device`` the current device of this thread. A negative index has no effect."""
    index = index_of(device)
    if index >= 0:
        _lazy_init()
        _C.set_device(index)


def synchronize(device: DeviceLike = None) -> None:
    """Waits until all work on all streams of the device is complete."""
    if is_dynamo_compiling():  # Note [Compiled functions]
        if device is None:
            torch.accelerator.synchronize()
        else:
            torch.accelerator.synchronize(device)
        return
    _lazy_init()
    _C.synchronize(index_of(device))


@constant_when_compiled
def get_device_name(device: DeviceLike = None) -> str:
    return get_device_properties(device).name


@constant_when_compiled
def get_device_properties(device: DeviceLike = None) -> "_C.DeviceProperties":
    """Name, total memory and other properties. Does not open the device."""
    index = index_of(device)
    count = device_count()
    if count and not 0 <= index < count:
        raise AssertionError(f"Invalid device id: index {index} is out of range; there are {count} devices")
    return _properties(index)


@functools.cache  # one object for each device, so that the results compare and hash equal as in torch.cuda
def _properties(index: int) -> "_C.DeviceProperties":
    return _C.device_properties(index)


@constant_when_compiled
def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """The device's major and minor version."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


@constant_when_compiled
def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether the device can copy from and to memory of the peer, as its driver declares."""
    index, peer = index_of(device), index_of(peer_device)
    for one in (index, peer):
        _C.device_properties(one)  # raises for an invalid index
    *_, capabilities = _C.driver_info()
    return index != peer and bool(capabilities & _driver.PEER_COPY)


class device:
    """Makes a device current for a ``with`` block; ``None`` or a negative index has no effect."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            _lazy_init()
        self.prev_idx = _C.maybe_exchange_device(self.idx)

    def __exit__(self, *exception: object) -> None:
        self.idx = _C.maybe_exchange_device(self.prev_idx)


class device_of(device):
    """Makes the device of a tensor or storage current; a tensor on another device type has no effect."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.device.type == DEVICE_NAME else -1)


_DeviceContext = device  # for functions with a parameter named `device`
