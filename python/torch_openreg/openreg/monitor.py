"""Operator statistics, sync debug mode, and errors for operators that run on CPU kernels.

All settings are process-wide, as ``torch.cuda.set_sync_debug_mode`` is: backward runs on other threads.
"""

import contextlib
import linecache
import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

import torch

from torch_openreg import _C
from torch_openreg._name import DEVICE_NAME

# ---- Statistics


class OperatorStats(NamedTuple):
    """Statistics of one operator."""

    calls: int
    launches: int  #: asynchronous calls
    cache_hits: int  #: of the launch cache, which stores output shapes
    cache_misses: int
    waits: int  #: calls that synchronized
    bytes: int  #: of the results, or copied
    host_seconds: float  #: time in the calls


class OperatorTotals(NamedTuple):
    """Sums over all operators."""

    launches: int
    cache_hits: int
    cache_misses: int
    waits: int


@contextlib.contextmanager
def record_operator_stats() -> Iterator[None]:
    """Records statistics of each operator inside the block. Blocks may nest and overlap."""
    _C.record_operators(True)
    try:
        yield
    finally:
        _C.record_operators(False)


def operator_stats() -> dict[str, OperatorStats]:
    """Statistics recorded since the last reset, by operator name: ``"aten::add.Tensor"``."""
    return {name: OperatorStats(*record) for name, record in _C.operator_records().items()}


def reset_operator_stats() -> None:
    _C.reset_operator_records()


def operator_totals() -> OperatorTotals:
    """Totals since the start of the process. Always counted and never reset; compute differences."""
    return OperatorTotals(*_C.operator_totals())


# ---- Sync debug mode

_SYNC_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """As ``torch.cuda.set_sync_debug_mode``: reports operators that synchronize.

    "default" or 0: no report. "warn" or 1: a warning. "error" or 2: a ``RuntimeError``, before the synchronization.
    Both name the operator. Explicit synchronization is not reported.
    """
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, got {debug_mode!r}"
            )
        debug_mode = _SYNC_MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected one of 0, 1, 2, got {debug_mode}")
    _C.set_sync_debug_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """0, 1 or 2; see ``set_sync_debug_mode``."""
    return _C.sync_debug_mode()


class assert_no_sync:
    """Raises an ``AssertionError`` with operator and line if an operator inside the block synchronizes.

    It is raised before the synchronization, or at the end of the block if code inside the block caught the error.
    """

    def __enter__(self) -> None:
        self._mode = get_sync_debug_mode()
        self._waits, _ = _C.reported_syncs()
        set_sync_debug_mode("error")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_sync_debug_mode(self._mode)
        waits, operator = _C.reported_syncs()
        if waits == self._waits:
            return
        if isinstance(error, RuntimeError):
            raise AssertionError(f"{error}, {_place(trace)}") from error
        if error is None:
            raise AssertionError(
                f"{DEVICE_NAME} was synchronized in an assert_no_sync block {waits - self._waits} time(s), "
                f"the last time by '{operator}'; the error was caught inside the block"
            )


def _place(trace: TracebackType | None) -> str:
    """The innermost line outside of torch, with its source text."""
    inside_torch = os.path.dirname(torch.__file__) + os.sep
    file, line = "an unknown file", 0
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(inside_torch):
            file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return f"at {file}:{line}: {linecache.getline(file, line).strip()}"


# ---- CPU kernels

_RESPONSES = ("allow", "warn", "error")


class fallback:
    """Reports operators in a ``with`` block that run on a CPU kernel because there is no device kernel.

    "allow" (the default): no report. "warn": a warning. "error": ``NotImplementedError``, as on a device without a
    fallback. Both name the operator. ``allow`` is one or more operators that are not reported, as names
    (``"aten::add.Tensor"``, or ``"aten::add"`` for all overloads) or as members of ``torch.ops``. An inner block
    replaces all settings of an outer block.
    """

    def __init__(self, response: str, allow: str | Iterable[Any] = ()) -> None:
        if response not in _RESPONSES:
            raise ValueError(
                f"invalid response {response!r}: expected one of {', '.join(map(repr, _RESPONSES))}"
            )
        names = [allow] if isinstance(allow, str) else allow
        self._inside = _RESPONSES.index(response), [_name(operator) for operator in names]

    def __enter__(self) -> None:
        self._before = _C.fallback_mode()
        _C.set_fallback_mode(*self._inside)

    def __exit__(self, *exception: object) -> None:
        _C.set_fallback_mode(*self._before)


def _name(operator: Any) -> str:
    if isinstance(operator, torch._ops.OpOverload):
        return operator.name()
    if isinstance(operator, torch._ops.OpOverloadPacket):
        return operator._qualified_op_name
    name = operator if "::" in operator else f"aten::{operator}"
    known = torch._C._dispatch_get_all_op_names()
    if not any(one == name or one.startswith(f"{name}.") for one in known):
        raise ValueError(
            f"unknown operator {operator!r}: expected a name such as 'aten::add.Tensor' or 'aten::add'"
        )
    return name
