"""Ranges as in ``torch.cuda.nvtx``, and the runtime's trace.

``torch.profiler`` does not need this module: ``ProfilerActivity.PrivateUse1`` is the device. A range of this module is
a ``record_function`` range for ``torch.profiler``, and a range of the runtime's trace for its subscriber, such as
``record``.
"""

import builtins
import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch.autograd import ProfilerConfig, ProfilerState, _disable_profiler, _enable_profiler

from torch_openreg import _C

from .device import device_count, synchronize

# ---- Ranges


def range_push(msg: str) -> int:
    """Begins a range, nested in the open ranges of this thread. Returns its depth, 0 for the outermost."""
    return _C.range_push(msg)


def range_pop() -> int:
    """Ends the innermost range of this thread. Returns its depth."""
    return _C.range_pop()


def range_start(msg: str) -> int:
    """Begins a range that need not nest. Returns its ID for ``range_end``, which any thread may call."""
    return _C.range_start(msg)


def range_end(range_id: int) -> None:
    _C.range_end(range_id)


def mark(msg: str) -> None:
    """Records an instant event."""
    _C.mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Context manager or decorator for a range. ``args`` and ``kwargs`` are passed to ``msg.format``."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


class emit_ranges:
    """Emits every operator in a ``with`` block as a range of the runtime's trace, as
    ``torch.autograd.profiler.emit_nvtx`` for CUDA. ``record_shapes`` appends the sizes of the arguments.

    It cannot be used together with ``torch.profiler``: a thread has only one profiler.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes
        self._entered = False

    def __enter__(self) -> "emit_ranges":
        if not self.enabled:
            return self
        if self._entered:
            raise RuntimeError("emit_ranges is already active and cannot be entered twice")
        if torch.autograd._profiler_enabled():
            raise RuntimeError("a profiler is already active in this thread; stop it before emit_ranges")
        self._entered = True
        config = ProfilerConfig(
            ProfilerState.PRIVATEUSE1,
            self.record_shapes,
            False,
            False,
            False,
            False,
            torch._C._profiler._ExperimentalConfig(),
        )
        _enable_profiler(config, set())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered:
            self._entered = False
            _disable_profiler()


# ---- The runtime's trace

_KINDS = ("kernel", "memcpy", "memset", "host function", "synchronize", "range", "mark")


class Record(NamedTuple):
    """One activity of the runtime, range or mark. Times are in nanoseconds of ``time.monotonic_ns``."""

    kind: str  #: "kernel", "memcpy", "memset", "host function", "synchronize", "range" or "mark"
    name: str
    function: str  #: the called function of openreg.h
    device: int  #: -1 for ranges and marks
    stream: int  #: stream ID in torch; 1000 and more for external streams
    correlation: int
    bytes: int
    thread: int  #: the calling thread
    call: tuple[int, int] | None  #: start and end of the call; None for synchronous activities
    work: tuple[int, int] | None  #: start and end of the work; None if it is not complete
    result: str


class record:
    """Records the runtime's trace in a ``with`` block; ``records`` has it afterwards, in the order of the calls.

    The end of the block synchronizes all devices, so that launched work is complete. Only one can be active in a
    process, and not together with ``torch.profiler`` on the device.
    """

    records: list[Record]

    def __enter__(self) -> "record":
        _C.start_recording()
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            for device in builtins.range(device_count()):
                synchronize(device)
        finally:
            made = [Record(_KINDS[row[0]], *row[1:]) for row in _C.stop_recording()]
            self.records = sorted(made, key=lambda record: record.correlation)
