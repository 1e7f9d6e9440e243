"""Backend metadata of tensors, and names of storages."""

from collections.abc import Mapping

import torch

from torch_openreg import _C


def get_backend_meta(tensor: torch.Tensor) -> dict[str, bool]:
    """The named flags of a tensor of this device; see ``set_backend_meta``."""
    return _C.backend_flags(tensor)


def set_backend_meta(tensor: torch.Tensor, marks: Mapping[str, bool]) -> None:
    """Sets the named flags of a tensor of this device; replaces all earlier flags.

    ``detach`` and ``torch.save`` keep them; the result of an operator has none.
    """
    _C.set_backend_flags(tensor, dict(marks))


def get_storage_name(storage: torch.Tensor | torch.UntypedStorage) -> str:
    """The name of a storage or of a tensor's storage, set by ``set_storage_name``; "" if none."""
    return _C.storage_name(_untyped(storage))


def set_storage_name(storage: torch.Tensor | torch.UntypedStorage, name: str) -> None:
    """Names a storage of this device, or a tensor's storage. Errors about the storage contain the name."""
    _C.set_storage_name(_untyped(storage), name)


def _untyped(storage: torch.Tensor | torch.UntypedStorage) -> torch.UntypedStorage:
    return storage.untyped_storage() if isinstance(storage, torch.Tensor) else storage
