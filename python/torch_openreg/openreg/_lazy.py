"""The first use of the device, and what a fork makes of it."""

import atexit
import os

from torch_openreg import _C
from torch_openreg._build import DEVICE_NAME

_initialized = False
_in_bad_fork = False


def _mark_child() -> None:
    global _in_bad_fork
    _in_bad_fork = _initialized


os.register_at_fork(after_in_child=_mark_child)


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had used the device."""
    return _in_bad_fork


def init() -> None:
    """Makes the device ready, if nothing has yet. Every use does this by itself."""
    _lazy_init()


def is_initialized() -> bool:
    """Whether something has used the device in this process."""
    return _initialized and not _in_bad_fork


def _lazy_init() -> None:
    """torch calls this before it first makes a tensor on the device."""
    global _initialized
    if _in_bad_fork:
        raise RuntimeError(
            f"Cannot re-initialize {DEVICE_NAME} in forked subprocess. To use {DEVICE_NAME} with "
            "multiprocessing, you must use the 'spawn' start method. (Neither the device's memory nor its "
            "threads come along with a fork; 'forkserver' works too.)"
        )
    if not _initialized:
        _C.init()
        _initialized = True
        atexit.register(_finish)


def _finish() -> None:
    """Pending work is done before the interpreter goes: a borrowed kernel may be Python."""
    if not _in_bad_fork:
        _C.finish()
