"""Lazy initialization of the device, and detection of forked children."""

import atexit
import os
import threading
from collections.abc import Callable

from torch_openreg import _C
from torch_openreg._name import DEVICE_NAME

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
    """Initializes the device. Optional: the first use of the device does the same."""
    _lazy_init()


def at_end_of_main_thread(function: Callable[..., object], *args: object) -> None:
    """Calls the function before Python joins its threads, one of which may hang: atexit would be too late."""
    register = getattr(threading, "_register_atexit", atexit.register)
    try:
        register(function, *args)
    except RuntimeError:  # the main thread has ended
        atexit.register(function, *args)


def is_initialized() -> bool:
    """Whether the device has been used in this process."""
    return _initialized and not _in_bad_fork


def _lazy_init() -> None:
    """Called by torch before it creates the first tensor on the device."""
    global _initialized
    if _in_bad_fork:
        raise RuntimeError(
            f"Cannot re-initialize {DEVICE_NAME} in forked subprocess. To use {DEVICE_NAME} with "
            "multiprocessing, you must use the 'spawn' start method. (A forked child has neither the device's "
            "memory nor its threads; 'forkserver' works too.)"
        )
    if not _initialized:
        _C.init()
        _initialized = True
        atexit.register(_finish)


def _finish() -> None:
    """Completes pending work before the interpreter exits: a kernel may be written in Python."""
    if not _in_bad_fork:
        _C.release_faults(True)  # work that hangs would not complete
        _C.finish()
