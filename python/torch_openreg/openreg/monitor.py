"""What operators do: statistics, and tests that fail when the host waits or a borrowed kernel runs.

All of it is process-wide, as ``torch.cuda.set_sync_debug_mode`` is: backward runs on threads of its own.
"""

import contextlib
import linecache
import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

import torch

from torch_openreg import _C
from torch_openreg._build import DEVICE_NAME

# ---- Statistics


class OperatorStats(NamedTuple):
    """What was noted of one operator."""

    calls: int
    launches: int  #: calls that went to the device with no need to wait for it
    cache_hits: int  #: of the launch cache, which knows the shapes of results
    cache_misses: int
    waits: int  #: calls for which the host waited
    bytes: int  #: of the results, or copied
    host_seconds: float  #: from the call to its return


class OperatorTotals(NamedTuple):
    """What was noted of all operators together."""

    launches: int
    cache_hits: int
    cache_misses: int
    waits: int


@contextlib.contextmanager
def record_operator_stats() -> Iterator[None]:
    """Keeps statistics of each operator inside of the block. Blocks may nest and overlap."""
    _C.record_operators(True)
    try:
        yield
    finally:
        _C.record_operators(False)


def operator_stats() -> dict[str, OperatorStats]:
    """What was recorded since the last reset, by name: ``"aten::add.Tensor"``."""
    return {name: OperatorStats(*record) for name, record in _C.operator_records().items()}


def reset_operator_stats() -> None:
    _C.reset_operator_records()


def operator_totals() -> OperatorTotals:
    """Totals since the process began. They are always counted and never reset: take the difference of two."""
    return OperatorTotals(*_C.operator_totals())


# ---- Waits

_SYNC_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """As ``torch.cuda.set_sync_debug_mode``: what happens when an operator makes the host wait.

    "default" or 0: nothing. "warn" or 1: a warning. "error" or 2: a ``RuntimeError``, before it waits. Both
    name the operator. Explicit synchronization does not count.
    """
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, got {debug_mode!r}"
            )
        debug_mode = _SYNC_MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected one of 0, 1, 2, got {debug_mode}")
    _C.set_wait_response(debug_mode)


def get_sync_debug_mode() -> int:
    """0, 1 or 2; see ``set_sync_debug_mode``."""
    return _C.wait_response()


class assert_no_sync:
    """Fails with an ``AssertionError`` that names operator and line if an operator inside of the block makes
    the host wait. It fails before the wait, and at the end of the block if the code inside caught that.
    """

    def __enter__(self) -> None:
        self._mode = get_sync_debug_mode()
        self._waits, _ = _C.reported_waits()
        set_sync_debug_mode("error")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_sync_debug_mode(self._mode)
        waits, operator = _C.reported_waits()
        if waits == self._waits:
            return
        if isinstance(error, RuntimeError) and str(error).startswith("called a synchronizing"):
            raise AssertionError(f"{error}, {_place(trace)}") from error
        if error is None:
            raise AssertionError(
                f"the host waited for {DEVICE_NAME} in a block that must not wait, {waits - self._waits} "
                f"time(s), last for '{operator}'; the error that said so was caught inside of the block"
            )


def _place(trace: TracebackType | None) -> str:
    """The innermost line of the program, which is not torch's, and what it says."""
    inside_torch = os.path.dirname(torch.__file__) + os.sep
    file, line = "an unknown file", 0
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(inside_torch):
            file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return f"at {file}:{line}: {linecache.getline(file, line).strip()}"


# ---- Borrowed kernels

_RESPONSES = ("allow", "warn", "error")


class fallback:
    """What happens in a ``with`` block when an operator runs on a CPU kernel for want of its own.

    "allow": nothing, the default. "warn": a warning. "error": ``NotImplementedError``, as on a device that
    has no fallback. Both name the operator. ``allow`` is one or more operators to which that does not apply, as names
    (``"aten::add.Tensor"``, or ``"aten::add"`` for all overloads) or as members of ``torch.ops``. An inner
    block replaces all of what an outer one says.
    """

    def __init__(self, response: str, allow: str | Iterable[Any] = ()) -> None:
        if response not in _RESPONSES:
            raise ValueError(
                f"there is no response {response!r}: use one of {', '.join(map(repr, _RESPONSES))}"
            )
        names = [allow] if isinstance(allow, str) else allow
        self._inside = _RESPONSES.index(response), [_name(operator) for operator in names]

    def __enter__(self) -> None:
        self._before = _C.borrowed_response()
        _C.set_borrowed_response(*self._inside)

    def __exit__(self, *exception: object) -> None:
        _C.set_borrowed_response(*self._before)


def _name(operator: Any) -> str:
    if isinstance(operator, torch._ops.OpOverload):
        return operator.name()
    if isinstance(operator, torch._ops.OpOverloadPacket):
        return operator._qualified_op_name
    name = operator if "::" in operator else f"aten::{operator}"
    known = torch._C._dispatch_get_all_op_names()
    if not any(one == name or one.startswith(f"{name}.") for one in known):
        raise ValueError(
            f"there is no operator {operator!r}: names look like 'aten::add.Tensor' or 'aten::add'"
        )
    return name
