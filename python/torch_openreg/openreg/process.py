"""Reducers that send tensors and events to other processes through ``torch.multiprocessing``.

A tensor is sent as a handle of its memory. ``torch.multiprocessing`` splits a tensor into metadata and storage, so only
the storage needs a reducer here.
"""

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing.reductions as reductions

from torch_openreg import _C
from torch_openreg._name import DEVICE_NAME

from ._lazy import _lazy_init
from .stream import Event


def ipc_collect() -> None:
    """Frees memory of sent tensors that were destroyed here and that no other process uses any more.

    This also happens when a tensor is sent, when a sent tensor is destroyed, and before an out-of-memory error.
    """
    _lazy_init()
    _C.collect_shared()


def reduce_storage(storage: torch.UntypedStorage) -> tuple[Any, ...]:
    """Reducer of storages, for ``torch.multiprocessing``."""
    if storage.device.type != DEVICE_NAME:
        return reductions.reduce_storage(storage)
    return rebuild_storage, _C.share_storage(storage)


def rebuild_storage(device: int, nbytes: int, memory: bytes, events: list[bytes]) -> torch.UntypedStorage:
    _lazy_init()
    return _C.receive_storage(device, nbytes, memory, events)


def reduce_event(event: Event) -> tuple[Any, ...]:
    handle = event.ipc_handle()
    assert event.device is not None, "an event with a handle was created on a device"
    return rebuild_event, (event.device.index, handle)


def rebuild_event(device: int, handle: bytes) -> Event:
    return Event.from_ipc_handle(device, handle)


ForkingPickler.register(torch.UntypedStorage, reduce_storage)
ForkingPickler.register(Event, reduce_event)
