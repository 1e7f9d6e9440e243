"""``check_input_liveness`` of a graph: finds tensors that a capture used and that were freed before a replay.

A graph has the addresses of its tensors, and not the tensors. Tensors that were made during the capture live in the pool of
the graph; all others must be kept by the program.
"""

import traceback
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_openreg import _C
from torch_openreg._name import DEVICE_NAME

_LIBRARIES = tuple(str(Path(module).parent) for module in (torch.__file__, _C.__file__))
_MOST_LISTED = 5


def _line() -> str:
    """The innermost line of the program."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(_LIBRARIES):
            return f"{frame.filename}:{frame.lineno} in {frame.name}"
    return "an unknown line"


@dataclass
class _Input:
    """A storage from outside of the capture, and its first use."""

    storage: "weakref.ref[torch.UntypedStorage]"
    address: int
    description: str

    def is_alive(self) -> bool:
        storage = self.storage()
        return storage is not None and storage.data_ptr() == self.address


class GraphInputs(TorchDispatchMode):
    """The tensors that operators use while the mode is active on a thread that captures."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self._inputs: dict[int, _Input] = {}  # by address
        self._made: set[int] = set()  # addresses of storages that were made in the capture

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not _C.is_current_stream_capturing():
            return operator(*args, **kwargs)
        for tensor, address in _graph_tensors((args, kwargs)):
            if address not in self._made and address not in self._inputs:
                self._inputs[address] = _Input(
                    weakref.ref(tensor.untyped_storage()),
                    address,
                    f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} on {tensor.device}, "
                    f"used by {operator} at {_line()}",
                )
        result = operator(*args, **kwargs)
        self._made.update(address for _, address in _graph_tensors(result) if address not in self._inputs)
        return result

    def check(self) -> None:
        """Raises RuntimeError if one of the tensors was freed."""
        freed = [found.description for found in self._inputs.values() if not found.is_alive()]
        if not freed:
            return
        listed = "".join(f"\n  {description}" for description in freed[:_MOST_LISTED])
        more = f"\n  and {len(freed) - _MOST_LISTED} more" if len(freed) > _MOST_LISTED else ""
        raise RuntimeError(
            f"the graph cannot be replayed: {len(freed)} of the tensors that its capture used were freed:{listed}{more}\n"
            "Keep the tensors as long as the graph; to give it new values, copy them into these tensors"
        )


def _graph_tensors(values: Any) -> Iterator[tuple[torch.Tensor, int]]:
    """The tensors that a graph has addresses of, with the address of their storage."""
    for value in pytree.tree_iter(values):
        if isinstance(value, torch.Tensor) and value.layout == torch.strided and _has_memory(value):
            yield value, value.untyped_storage().data_ptr()


def _has_memory(tensor: torch.Tensor) -> bool:
    if tensor.device.type not in (DEVICE_NAME, "cpu") or tensor.untyped_storage().data_ptr() == 0:
        return False
    return tensor.device.type == DEVICE_NAME or tensor.is_pinned()
