"""Hangs: a watchdog that reports streams without progress. See docs/guide/finding_bugs.md.

The watchdog is process-wide. ``OPENREG_WATCHDOG_SECONDS`` switches it on for a whole process.
"""

import math
import os

from typing_extensions import Self

from torch_openreg import _C
from torch_openreg._name import setting

from ._lazy import at_end_of_main_thread

WATCHDOG_SECONDS = setting("WATCHDOG_SECONDS")
WATCHDOG_FAIL = setting("WATCHDOG_FAIL")


class watchdog:
    """Reports streams without progress for ``seconds``, to stderr: the operator, its arguments and line, what the stream
    waits for, and the stacks of all Python threads.

    With ``fail=True``, such a stream then fails: the next synchronization raises an error with the report. Blocks may
    nest; the innermost one applies.
    """

    def __init__(self, seconds: float, fail: bool = False) -> None:
        if not isinstance(seconds, (int, float)):
            raise TypeError(f"seconds is {seconds!r}: expected a number")
        if not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(f"seconds is {seconds}: expected a positive number")
        self._options = (seconds, fail)
        self._before: tuple[float, bool] | None = None

    def __enter__(self) -> Self:
        if self._before is not None:
            raise RuntimeError("this watchdog block is already active; make another one")
        self._before = _set(*self._options)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._before is not None:
            _set(*self._before)
            self._before = None


def apply_environment() -> None:
    """Switches the watchdog on for the whole process, at the load of the device. Raises a ValueError."""
    fail = os.environ.get(WATCHDOG_FAIL, "")
    if fail not in ("", "0", "1"):
        raise ValueError(f"{WATCHDOG_FAIL} is {fail!r}: expected 0 or 1")
    text = os.environ.get(WATCHDOG_SECONDS, "")
    if not text:
        return
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{WATCHDOG_SECONDS} is {text!r}: expected a number of seconds; 0 is off")
    if seconds > 0:
        _set(seconds, fail == "1")


_registered = False


def _set(seconds: float, fail: bool) -> tuple[float, bool]:
    """Switches the watchdog on, or off with 0. Returns the options before."""
    global _registered
    if not _registered:
        _registered = True
        at_end_of_main_thread(_C.stop_python_stacks)  # the interpreter cannot be inspected while it ends
    return _C.set_watchdog(seconds, fail)
