"""Ranges in the way of ``torch.cuda.nvtx``, and the runtime's trace.

``torch.profiler`` itself needs nothing from here: ``ProfilerActivity.PrivateUse1`` is the device. A range that is
pushed here is a ``record_function`` range for ``torch.profiler``, and a range of the runtime's trace for whatever
listens there, ``record`` for instance.
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
    """Begins a range that nests in this thread's others. Returns its depth, 0 for the outermost."""
    return _C.range_push(msg)


def range_pop() -> int:
    """Ends the range that this thread began last. Returns its depth."""
    return _C.range_pop()


def range_start(msg: str) -> int:
    """Begins a range that need not nest. Returns the id with which ``range_end`` ends it, on any thread."""
    return _C.range_start(msg)


def range_end(range_id: int) -> None:
    _C.range_end(range_id)


def mark(msg: str) -> None:
    """Marks this moment."""
    _C.mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block or, as a decorator, a function. ``args`` and ``kwargs`` go to ``msg.format``."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


class emit_ranges:
    """While it is on, every operator is a range of the runtime's trace: what
    ``torch.autograd.profiler.emit_nvtx`` is for CUDA. ``record_shapes`` appends the sizes of the arguments.

    It cannot be on together with ``torch.profiler``: each is the profiler of its thread.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes
        self._entered = False

    def __enter__(self) -> "emit_ranges":
        if not self.enabled:
            return self
        if self._entered:
            raise RuntimeError("emit_ranges is on already and cannot be entered twice")
        if torch.autograd._profiler_enabled():
            raise RuntimeError("a profiler is on in this thread; leave it before emit_ranges begins")
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
    """One thing that the runtime was asked to do, or that the program said. Times are nanoseconds of
    ``time.monotonic_ns``.
    """

    kind: str  #: "kernel", "memcpy", "memset", "host function", "synchronize", "range" or "mark"
    name: str
    function: str  #: of openreg.h that was called
    device: int  #: -1 for ranges and marks
    stream: int  #: the number that torch gives it; 1000 and more for streams that torch did not make
    correlation: int
    bytes: int
    thread: int  #: that called
    call: tuple[int, int] | None  #: begin and end of the call; none for what ends with its call
    work: tuple[int, int] | None  #: begin and end of the work; none if it has not finished
    result: str


class record:
    """Records the runtime's trace in a block; ``records`` has it afterwards, in the order of the calls.

    The device is waited for at the end, so that what was launched has finished. One at a time in a process, and
    not together with a profile of the device.
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
