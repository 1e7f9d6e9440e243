"""A stream that is kept busy until it is let go: how tests see what happens while work is pending."""

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
    """Work that is given to ``stream`` inside of the block does not run before the block ends.

    Nothing is pending in the blocking schedule, so a block there is asynchronous.
    """
    let_go = threading.Event()
    function = _FUNCTION(lambda _: let_go.wait(60) and None)
    with contextlib.ExitStack() as stack:
        if torch.openreg.get_schedule().name == "blocking":
            stack.enter_context(torch.openreg.schedule("async"))
        assert _runtime.orLaunchHostFunc(stream.native_handle, function, None) == 0
        try:
            yield
        finally:
            let_go.set()
            stream.synchronize()


def hold_for_ever(stream: torch.Stream) -> None:
    """Work that is given to ``stream`` from now on never runs: for a process that is about to be killed."""
    function = _FUNCTION(lambda _: threading.Event().wait())
    _kept.append(function)
    assert _runtime.orLaunchHostFunc(stream.native_handle, function, None) == 0


_kept: list = []
