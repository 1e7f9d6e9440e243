"""Blocks a stream, so that tests can observe the device while work is pending."""

import contextlib
import ctypes
import pathlib
import threading
from collections.abc import Iterator

import torch

import torch_openreg

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_runtime = ctypes.CDLL(str(pathlib.Path(torch_openreg.__file__).parent / "lib" / "libopenreg.so"))
_runtime.orLaunchHostFunc.argtypes = [ctypes.c_void_p, _FUNCTION, ctypes.c_void_p]


@contextlib.contextmanager
def held(stream: torch.Stream) -> Iterator[None]:
    """Work that is launched on ``stream`` inside the block does not run before the block ends.

    The blocking schedule has no pending work, so the block runs in the async schedule there.
    """
    released = threading.Event()
    function = _FUNCTION(lambda _: released.wait(60) and None)
    with contextlib.ExitStack() as stack:
        if torch.openreg.get_schedule().name == "blocking":
            stack.enter_context(torch.openreg.schedule("async"))
        assert _runtime.orLaunchHostFunc(stream.native_handle, function, None) == 0
        try:
            yield
        finally:
            released.set()
            stream.synchronize()


def block_forever(stream: torch.Stream) -> None:
    """Blocks ``stream`` until the process ends: for a process that is about to be killed."""
    function = _FUNCTION(lambda _: threading.Event().wait())
    _kept.append(function)
    assert _runtime.orLaunchHostFunc(stream.native_handle, function, None) == 0


_kept: list = []
