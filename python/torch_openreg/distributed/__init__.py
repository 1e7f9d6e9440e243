"""``torch.distributed`` on the device: the backend "occl", over Gloo.

``import torch`` only registers the name. The classes of the backend are defined when the first group is created.
"""

import atexit
import datetime
import functools
import os
import sys
from typing import Any

import torch
import torch.distributed as dist

from torch_openreg import _C
from torch_openreg._build import DEVICE_NAME

__all__ = ["BACKEND", "flight_records"]

BACKEND = "occl"

_classes: Any = None  # this module, once the classes of the extension module are defined in it
_gloo_device: Any = None
_torch_register_backend: Any = None
_torch_init_config: Any = None


def register() -> None:
    """Makes occl the backend of the device in ``torch.distributed``. No effect if this torch has no distributed."""
    global _torch_register_backend, _torch_init_config
    if not dist.is_available() or BACKEND in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=[DEVICE_NAME])
    fake = dist.Backend.backend_capability.get("fake")
    if fake is not None and DEVICE_NAME not in fake:
        fake.append(DEVICE_NAME)
    group: Any = dist.ProcessGroup
    _torch_register_backend = group._register_backend
    group._register_backend = functools.wraps(_torch_register_backend)(_register_backend)
    config: Any = dist.distributed_c10d.BackendConfig
    _torch_init_config = config.__init__
    config.__init__ = functools.wraps(_torch_init_config)(_init_config)


def flight_records(group: "dist.ProcessGroup | None" = None) -> list[dict[str, Any]]:
    """The last operations of this rank in ``group`` (default: the default group), in the order of the calls.

    Each has the operation, its sequence number and group, the tensors, the Python line of the call, the state
    ("scheduled", "started", "completed", "failed") and the times.
    """
    group = group or dist.group.WORLD
    assert group is not None, "init_process_group was not called"
    backend: Any = group._get_backend(torch.device(DEVICE_NAME))
    return backend.flight_records()


def _create(options: Any, backend_options: Any) -> Any:
    global _classes
    if _classes is None:
        _classes = sys.modules[__name__]
        _C.define_distributed_classes(_classes)
        # A process that exits does not wait for operations that other ranks have not joined.
        atexit.register(_classes._abort_all)
    timeout = options.timeout if backend_options is None else backend_options._timeout
    # Without the prefix, the ranks of a restarted elastic job would read the addresses of the ranks before it.
    store = dist.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), options.store)
    return _classes._create_process_group(store, options.group_rank, options.group_size, timeout, _make_gloo)


def _make_gloo(store: "dist.Store", rank: int, size: int, timeout: datetime.timedelta) -> Any:
    """A Gloo group. All groups share one network device, and so its thread."""
    global _gloo_device
    gloo: Any = dist.ProcessGroupGloo
    if _gloo_device is None:
        interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
        _gloo_device = gloo.create_device(interface=interface) if interface else gloo.create_default_device()
    options = gloo._Options()
    options._devices = [_gloo_device]
    options._timeout = timeout
    return gloo(store, rank, size, options)


def _register_backend(self: Any, device: torch.device, backend_type: Any, backend: Any = None) -> None:
    """Makes occl the default backend of its group, as NCCL is. Before torch 2.14, torch looks for Gloo there."""
    _torch_register_backend(self, device, backend_type, backend)
    if _classes is not None and isinstance(backend, _classes.ProcessGroupOCCL):
        self._set_default_backend(backend_type)


def _init_config(self: Any, backend: Any) -> None:
    """If the program names no backend, CPU tensors get Gloo.

    torch takes only the backend of the accelerator, so that a program with CPU tensors would fail as soon as the device
    is installed.
    """
    _torch_init_config(self, backend)
    if str(backend) == dist.Backend.UNDEFINED and DEVICE_NAME in self.device_backend_map:
        self.device_backend_map = {"cpu": dist.Backend(dist.Backend.GLOO), **self.device_backend_map}
