"""Streams and events: torch's own classes, with this device as the default."""

from typing import Any

import torch
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from torch_openreg import _C
from torch_openreg._name import DEVICE_NAME
from torch_openreg._torch_versions import HAS_GRAPHS

from ._lazy import _lazy_init
from .device import DeviceLike, index_of


class Stream(torch.Stream):
    """A queue of work that runs in order.

    Streams come from a pool and exist for the lifetime of the process. ``priority`` is 0 or negative; lower numbers
    have higher priority.
    """

    native_handle: int  # missing in the stubs of torch.Stream

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> Self:
        _lazy_init()
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, torch.device(DEVICE_NAME, _checked(device)), priority=priority)

    @property
    def priority(self) -> int:
        return _C.stream_priority(self.stream_id, self.device_index)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority; lower numbers have higher priority."""
        properties = _C.device_properties(_C.current_device())
        return properties.least_priority, properties.greatest_priority

    def record_event(self, event: "torch.Event | None" = None) -> "torch.Event":
        """Records ``event``, or a new one, on this stream and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: "torch.Event") -> None:
        """Makes this stream wait for ``event``."""
        event.wait(self)

    def __repr__(self) -> str:
        return f"torch.{DEVICE_NAME}.Stream(device={self.device}, stream_id={self.stream_id})"


class ExternalStream(Stream):
    """A stream that was created with the runtime's ``orStreamCreate``; ``stream_ptr`` is its handle."""

    def __new__(cls, stream_ptr: int, device: DeviceLike = None, **kwargs: Any) -> Self:
        stream_id, index = _C.external_stream_id(stream_ptr)
        if device is not None and index_of(device) != index:
            raise ValueError(f"the stream belongs to device {index}, not to device {index_of(device)}")
        return super().__new__(cls, **_as_ids(stream_id, index))


def get_stream_from_external(data_ptr: int, device: DeviceLike = None) -> ExternalStream:
    """The stream of a native handle, as ``ExternalStream``."""
    return ExternalStream(data_ptr, device)


class Event(torch.Event):
    """A point in a stream, to wait for, to query, and with ``enable_timing`` to measure time.

    With ``interprocess`` it can be sent to other processes, which can record it and wait for it too. With ``external``,
    records and waits during a capture become nodes of the graph: each replay records the event for code outside of the
    graph, and waits for the latest record of other code.
    """

    _enable_timing: bool
    _interprocess: bool
    _external: bool

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Self:
        if interprocess and enable_timing:
            raise ValueError("an interprocess event does not support timing; use enable_timing=False")
        event = super().__new__(
            cls, DEVICE_NAME, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )
        event._enable_timing = enable_timing
        event._interprocess = interprocess
        event._external = external
        return event

    def _create(self, stream: "torch.Stream | None") -> None:
        """Creates an event that the first record cannot create: it would not know these flags."""
        if (self._interprocess or self._external) and not self.event_id:
            _lazy_init()
            device = _C.current_device() if stream is None else stream.device_index
            _C.make_event(self, device, self._enable_timing, self._interprocess, self._external)

    @classmethod
    def from_ipc_handle(cls, device: DeviceLike, handle: bytes) -> "Event":
        """Opens an event of another process from the result of its ``ipc_handle``."""
        _lazy_init()
        event = cls(interprocess=True)
        _C.open_interprocess_event(event, _checked(device), handle)
        return event

    def ipc_handle(self) -> bytes:
        """A handle with which another process can open this event. Binds an unrecorded event to the current device."""
        if not self._interprocess:
            raise RuntimeError("the event is not an interprocess event; create it with interprocess=True")
        self._create(None)
        return _C.event_ipc_handle(self.event_id)

    def record(self, stream: "torch.Stream | None" = None) -> None:
        """Records the event on ``stream``, or on the current stream."""
        self._create(stream)
        super().record(stream)

    def wait(self, stream: "torch.Stream | None" = None) -> None:
        """Makes ``stream``, or the current stream, wait for the event."""
        if self._external and HAS_GRAPHS and (stream or current_stream()).is_capturing():
            self._create(stream)  # the graph waits for records of this event
        super().wait(stream)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds between the records of this event and ``end_event``."""
        return _C.elapsed_time(self, end_event)

    @property
    def device(self) -> torch.device | None:  # type: ignore[override]
        """The device of the first record; ``None`` before it."""
        return super().device if self.event_id else None


def current_stream(device: DeviceLike = None) -> Stream:
    """The current stream of this thread on the device."""
    if is_dynamo_compiling():  # Note [Compiled functions] in device.py
        current = torch.accelerator.current_stream
        return current() if device is None else current(device)  # type: ignore[return-value]
    _lazy_init()
    stream = torch._C._accelerator_getStream(_checked(device))
    return _as_stream(stream)


def default_stream(device: DeviceLike = None) -> Stream:
    _lazy_init()
    index = _checked(device)
    return Stream(**_as_ids(_C.default_stream_id(index), index))


def set_stream(stream: "torch.Stream | None") -> None:
    """Makes ``stream`` and its device current. ``None`` has no effect."""
    if is_dynamo_compiling() and stream is not None:  # Note [Compiled functions] in device.py
        torch.accelerator.set_stream(stream)
    elif stream is not None:
        _lazy_init()
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """Makes a stream and its device current for a ``with`` block; ``None`` has no effect."""

    def __init__(self, stream: "torch.Stream | None") -> None:
        self.stream = stream

    def __enter__(self) -> "torch.Stream | None":
        if self.stream is None:
            return None
        self._device_before = _C.current_device()
        self._stream_before = current_stream(self.stream.device)
        set_stream(self.stream)
        return self.stream

    def __exit__(self, *exception: object) -> None:
        if self.stream is not None:
            set_stream(self._stream_before)
            _C.set_device(self._device_before)


def stream(stream: "torch.Stream | None") -> StreamContext:
    """Makes ``stream`` current for a ``with`` block."""
    if is_dynamo_compiling() and stream is not None:  # Note [Compiled functions] in device.py
        return stream  # type: ignore[return-value]
    return StreamContext(stream)


def _sleep(cycles: int) -> None:
    """Occupies the current stream for this many cycles of a 1 GHz clock. Asynchronous."""
    _lazy_init()
    _C.sleep(cycles)


def _checked(device: DeviceLike) -> int:
    index = index_of(device)
    _C.device_properties(index)  # raises for an invalid index
    return index


def _as_ids(stream_id: int, index: int) -> dict[str, int]:
    return {
        "stream_id": stream_id,
        "device_index": index,
        "device_type": torch._C._autograd.DeviceType.PrivateUse1.value,
    }


def _as_stream(stream: torch.Stream) -> Stream:
    return Stream(**_as_ids(stream.stream_id, stream.device_index))
