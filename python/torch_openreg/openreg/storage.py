"""What a backend ties to tensors and storages of its own."""

from collections.abc import Mapping

import torch

from torch_openreg import _C


def get_backend_meta(tensor: torch.Tensor) -> dict[str, bool]:
    """The named marks of a tensor of this device; see ``set_backend_meta``."""
    return _C.backend_flags(tensor)


def set_backend_meta(tensor: torch.Tensor, marks: Mapping[str, bool]) -> None:
    """Ties named marks to a tensor of this device, in place of those that it had.

    ``detach`` and ``torch.save`` keep them; an operator's result has none.
    """
    _C.set_backend_flags(tensor, dict(marks))


def get_storage_name(storage: torch.Tensor | torch.UntypedStorage) -> str:
    """The name that ``set_storage_name`` gave to a storage, or to that of a tensor; "" if none."""
    return _C.storage_name(_untyped(storage))


def set_storage_name(storage: torch.Tensor | torch.UntypedStorage, name: str) -> None:
    """Gives a storage of this device, or that of a tensor, a name. Errors about the storage repeat it."""
    _C.set_storage_name(_untyped(storage), name)


def _untyped(storage: torch.Tensor | torch.UntypedStorage) -> torch.UntypedStorage:
    return storage.untyped_storage() if isinstance(storage, torch.Tensor) else storage
