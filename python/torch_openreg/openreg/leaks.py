"""Leaks: device memory that a block of the program allocates and does not free. See docs/guide/finding_bugs.md."""

import gc
import linecache
import os
import threading
from types import TracebackType
from typing import Any, NamedTuple

import torch
from typing_extensions import Self

from torch_openreg import _C
from torch_openreg._name import DEVICE_NAME

from ._lazy import _lazy_init

_INTERNAL = tuple(
    os.path.dirname(os.path.abspath(path)) + os.sep for path in (torch.__file__, os.path.dirname(__file__))
)


class Leak(NamedTuple):
    """Memory that was allocated in a ``check_leaks`` block and is still in use at its end."""

    device: int
    nbytes: int
    line: str  #: "train.py:12 in step: x = torch.ones(3)", the innermost line outside of torch; empty if unknown
    tensor: str  #: "float32 of shape (3,)", if a Python object has the tensor; else empty

    def __str__(self) -> str:
        tensor = f", a tensor {self.tensor}" if self.tensor else ""
        return f"{self.nbytes} bytes on {DEVICE_NAME}:{self.device}{tensor}, allocated at {self.line or 'an unknown line'}"


class LeakError(AssertionError):
    """Raised at the end of a ``check_leaks`` block; ``leaks`` has the memory."""

    def __init__(self, leaks: list[Leak]) -> None:
        total = sum(leak.nbytes for leak in leaks)
        super().__init__("\n".join([f"{total} bytes of device memory are still in use", *map(str, leaks)]))
        self.leaks = leaks


class check_leaks:
    """Raises ``LeakError`` if memory that is allocated inside the block is still in use at its end.

    The error names the lines of the allocations. With ``raise_error=False``, ``leaks`` has the memory. Memory of all
    threads counts. An exception of the block is passed on, without a check. Blocks may nest.
    """

    def __init__(self, raise_error: bool = True) -> None:
        self._raise_error = raise_error
        self._before: list[int] | None = None
        self.leaks: list[Leak] = []  #: after the block

    def __enter__(self) -> Self:
        if self._before is not None:
            raise RuntimeError("this check_leaks block is already active; make another one")
        _lazy_init()
        _start()
        self._before = _C.recorded_allocations()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        before, self._before = self._before, None
        try:
            if kind is None and before is not None:
                self.leaks = _find(before)
        finally:
            _stop()
        if self.leaks and self._raise_error:
            raise LeakError(self.leaks)


# ---- Recording of lines. A recording of the program, with the settings of the program, stays as it is.

_lock = threading.Lock()  # guards the two below
_users = 0
_started = False


def _start() -> None:
    global _users, _started
    with _lock:
        _users += 1
        if _users == 1 and not _C.records_memory_history():
            _started = True
            _C.record_memory_history(True, 1, False, 1, False, [])


def _stop() -> None:
    global _users, _started
    with _lock:
        _users -= 1
        if _users == 0 and _started:
            _started = False
            _C.record_memory_history(False, 0, False, 1, False, [])


# ---- The memory


def _find(before: list[int]) -> list[Leak]:
    if not _C.allocations_since(before):
        return []
    gc.collect()
    found = _C.allocations_since(before)
    tensors = _tensors({address for _, address, _, _ in found})
    return [
        Leak(device, nbytes, _line(frames), tensors.get(address, ""))
        for device, address, nbytes, frames in found
    ]


def _line(frames: list[dict[str, Any]]) -> str:
    for frame in frames:
        file = frame["filename"]
        if not file.startswith(_INTERNAL) and not file.startswith("<eval_with_key>"):
            source = linecache.getline(file, frame["line"]).strip()
            return f"{file}:{frame['line']} in {frame['name']}" + (f": {source}" if source else "")
    return ""


def _tensors(addresses: set[int]) -> dict[int, str]:
    """The dtype and shape of a tensor at each address, of those that Python objects have."""
    found: dict[int, str] = {}
    for thing in gc.get_objects():
        if not issubclass(type(thing), torch.Tensor):  # isinstance would call properties of other objects
            continue
        try:
            address = thing.untyped_storage().data_ptr() if thing.device.type == DEVICE_NAME else 0
        except (RuntimeError, NotImplementedError):  # without a storage
            continue
        if address in addresses:
            found.setdefault(address, f"{str(thing.dtype)[6:]} of shape {tuple(thing.shape)}")
    return found
