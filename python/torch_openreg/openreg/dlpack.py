"""DLPack: exchange of tensors with other libraries, in stream order.

torch supports only streams of CUDA, and not this device's name: ``Tensor.__dlpack_device__`` compares the name
with "privateuse1", ``Tensor.__dlpack__`` orders streams only for "cuda", and ``torch.from_dlpack`` passes its stream to the
producer only on CUDA. There is no hook for the three functions, so they are wrapped here; the wrappers call torch's own
for other devices.

A stream is the integer ``Stream.native_handle``; None is the default stream, and -1 means no synchronization.
"""

import functools
from typing import Any

import torch
import torch.utils.dlpack
from torch.utils.dlpack import DLDeviceType

from torch_openreg._name import DEVICE_NAME

from .device import current_device
from .races import check_host_read
from .stream import Event, ExternalStream, Stream, current_stream, default_stream

_torch_dlpack = torch.Tensor.__dlpack__
_torch_dlpack_device = torch.Tensor.__dlpack_device__
_torch_from_dlpack = torch.utils.dlpack.from_dlpack


def _device_of(tensor: torch.Tensor) -> torch.device:
    with torch._C.DisableTorchFunctionSubclass():  # a ReadOnlyTensorWrapper permits only exports
        return tensor.device


@functools.wraps(_torch_dlpack_device)
def _dlpack_device(self: torch.Tensor) -> tuple[Any, int]:
    device = _device_of(self)
    if device.type != DEVICE_NAME:
        return _torch_dlpack_device(self)
    return DLDeviceType.kDLExtDev, device.index


@functools.wraps(_torch_dlpack)
def _dlpack(self: torch.Tensor, *, stream: int | None = -1, **arguments: Any) -> Any:
    device = _device_of(self)
    if device.type == DEVICE_NAME:
        if stream is not None and type(stream) is not int:
            raise TypeError("stream must be ``int`` or ``none``")
        if device.index != current_device():
            raise BufferError(
                f"Can't export tensors of a device that is not current. The tensor is on {device}, and the "
                f"current device is {current_device()}."
            )
        if stream != -1:
            _order(stream)
        stream = -1
    else:
        check_host_read(self, "Tensor.__dlpack__")
    return _torch_dlpack(self, stream=stream, **arguments)


def _order(number: int | None) -> None:
    """Makes the consumer's stream wait for the current stream."""
    consumer: Stream = default_stream() if number is None else ExternalStream(number)
    producer = current_stream()
    if consumer.native_handle != producer.native_handle:
        event = Event()
        event.record(producer)
        consumer.wait_event(event)


class _Ordered:
    """Wraps a producer of this device and passes the current stream to it, if it accepts a stream."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self._producer.__dlpack_device__()

    def __dlpack__(self, **arguments: Any) -> Any:
        stream = current_stream(self.__dlpack_device__()[1]).native_handle
        try:
            return self._producer.__dlpack__(stream=stream, **arguments)
        except TypeError:
            return self._producer.__dlpack__(**arguments)


@functools.wraps(_torch_from_dlpack)
def _from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> torch.Tensor:
    if (
        hasattr(ext_tensor, "__dlpack__")
        and not isinstance(
            ext_tensor, torch.Tensor
        )  # a torch.Tensor needs no ordering: it is used on the current stream
        and ext_tensor.__dlpack_device__()[0] == DLDeviceType.kDLExtDev
    ):
        ext_tensor = _Ordered(ext_tensor)
    return _torch_from_dlpack(ext_tensor, device=device, copy=copy)


torch.Tensor.__dlpack__ = _dlpack  # type: ignore[method-assign]
torch.Tensor.__dlpack_device__ = _dlpack_device  # type: ignore[method-assign]
if _read_only := getattr(torch.utils.dlpack, "ReadOnlyTensorWrapper", None):  # since torch 2.14
    _read_only._DLPACK_ALLOWED |= {_dlpack, _dlpack_device}
torch.from_dlpack = torch.utils.dlpack.from_dlpack = _from_dlpack
