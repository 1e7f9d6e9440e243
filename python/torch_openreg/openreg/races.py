"""Races: accesses to the same memory that nothing orders. See docs/guide/finding_bugs.md.

The check is process-wide: autograd launches from its own threads. ``OPENREG_CHECK_RACES=1`` checks a whole process.
"""

import atexit
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from typing_extensions import Self

from torch_openreg import _C
from torch_openreg._name import DEVICE_NAME, setting

CHECK_RACES = setting("CHECK_RACES")


class RaceAccess(NamedTuple):
    """One of the two accesses of a race."""

    operator: str
    write: bool
    stream: str  #: "stream 3 of openreg:0", or "the host"
    line: str  #: "train.py:12 in step"; empty if unknown
    captured_at: str  #: the line of the capture, if a replay of a graph makes the access


class Race(NamedTuple):
    """Two accesses to the same memory, one of which writes, without an order between them."""

    first: RaceAccess
    second: RaceAccess
    address: int  #: of the second access
    nbytes: int
    allocated_at: str  #: the line of the allocation; empty if unknown
    advice: str  #: the call that orders the accesses
    text: str

    def __str__(self) -> str:
        return self.text


class RaceError(RuntimeError):
    """Raised at the end of a ``check_races`` block; ``reports`` has the races."""

    def __init__(self, reports: list[Race]) -> None:
        super().__init__("\n".join([f"{len(reports)} race(s)", *map(str, reports)]))
        self.reports = reports


class check_races:
    """Finds races of the work that is launched inside the block. Raises ``RaceError`` at its end.

    With ``raise_error=False``, ``reports`` has the races. A race is found from the order that the program establishes,
    so the schedule does not matter. Each pair of operators and lines is reported once. Blocks may nest.
    """

    def __init__(self, raise_error: bool = True) -> None:
        self._raise_error = raise_error
        self._first: int | None = None
        self._reports: list[Race] = []

    def __enter__(self) -> Self:
        if self._first is not None:
            raise RuntimeError("this check_races block is already active; make another one")
        self._first = _C.race_count()
        _start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        self._reports = self.reports
        self._first = None
        _stop()
        if self._reports and self._raise_error and kind is None:
            raise RaceError(self._reports)

    @property
    def reports(self) -> list[Race]:
        """The races that were found in the block so far; after the block, those at its end."""
        if self._first is None:
            return self._reports
        found = _C.races_from(self._first)
        return [Race(RaceAccess(*race[0]), RaceAccess(*race[1]), *race[2:]) for race in found]


def apply_environment() -> None:
    """Starts the check for the whole process, at the load of the device. Raises a ValueError."""
    value = os.environ.get(CHECK_RACES, "")
    if value not in ("", "0", "1"):
        raise ValueError(f"{CHECK_RACES} is {value!r}: expected 0 or 1")
    if value == "1":
        _C.print_races(True)
        _start()
        atexit.register(_print_count)


def _print_count() -> None:
    if count := _C.race_count():
        print(f"{DEVICE_NAME}: {count} race(s) found", file=sys.stderr)


# ---- Host reads that no operator makes: methods of Tensor that return its memory or its values

_METHODS = ("numpy", "tolist")  # and __dlpack__, in dlpack.py
_lock = threading.Lock()
_users = 0
_replaced: dict[str, Any] = {}


def check_host_read(tensor: torch.Tensor, function: str) -> None:
    if _users and type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type == "cpu":
        _C.check_host_access(tensor, False, function)


def _checked(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        check_host_read(self, f"Tensor.{name}")
        return method(self, *args, **kwargs)

    return call


def _start() -> None:
    global _users
    with _lock:
        _C.start_race_check()
        _users += 1
        if _users > 1:
            return
        for name in _METHODS:
            if name in vars(torch.Tensor):
                _replaced[name] = vars(torch.Tensor)[name]
            setattr(torch.Tensor, name, _checked(name, getattr(torch.Tensor, name)))


def _stop() -> None:
    global _users
    with _lock:
        _C.stop_race_check()
        _users -= 1
        if _users > 0:
            return
        for name in _METHODS:
            if name in _replaced:
                setattr(torch.Tensor, name, _replaced.pop(name))
            else:
                delattr(torch.Tensor, name)
