"""Tensors and events between processes, as ``torch.multiprocessing`` sends them.

A tensor of this device is sent by telling the receiver where its memory is. ``torch.multiprocessing`` takes a
tensor apart into its metadata and its storage, so the storage is all that needs a reducer of ours.
"""

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing.reductions as reductions

from torch_openreg import _C
from torch_openreg._build import DEVICE_NAME

from ._lazy import _lazy_init
from .stream import Event


def ipc_collect() -> None:
    """Gives back memory that was sent to other processes, was freed here, and that none of them has any more.

    That also happens whenever something is sent or a tensor that was sent goes, and before memory runs out.
    """
    _lazy_init()
    _C.collect_shared()


def reduce_storage(storage: torch.UntypedStorage) -> tuple[Any, ...]:
    """What ``torch.multiprocessing`` pickles in place of a storage."""
    if storage.device.type != DEVICE_NAME:
        return reductions.reduce_storage(storage)
    return rebuild_storage, _C.share_storage(storage)


def rebuild_storage(device: int, nbytes: int, memory: bytes, events: list[bytes]) -> torch.UntypedStorage:
    _lazy_init()
    return _C.receive_storage(device, nbytes, memory, events)


def reduce_event(event: Event) -> tuple[Any, ...]:
    handle = event.ipc_handle()
    return rebuild_event, (event.device.index, handle)


def rebuild_event(device: int, handle: bytes) -> Event:
    return Event.from_ipc_handle(device, handle)


ForkingPickler.register(torch.UntypedStorage, reduce_storage)
ForkingPickler.register(Event, reduce_event)
