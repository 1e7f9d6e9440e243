"""``torch.distributed`` on the device: the backend "occl", over Gloo.

``import torch`` only registers the name. The classes of the backend are defined when the first group is created.
"""

import atexit
import ctypes
import datetime
import functools
import os
import sys
from typing import Any

import torch
import torch.distributed as dist

from torch_openreg import _C
from torch_openreg._name import DEVICE_NAME, setting

__all__ = ["BACKEND", "flight_records"]

BACKEND = "occl"
P2P_DISABLE = setting("P2P_DISABLE")

_classes: Any = None  # this module, once the classes of the extension module are defined in it
_gloo_device: Any = None
_torch_register_backend: Any = None
_torch_init_config: Any = None
_names_no_backend = False


def register() -> None:
    """Makes occl the backend of the device in ``torch.distributed``. No effect if this torch has no distributed."""
    global _torch_register_backend, _torch_init_config
    if not dist.is_available() or BACKEND in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=[DEVICE_NAME])
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
        os.register_at_fork(after_in_child=_leak_groups)
    timeout = options.timeout if backend_options is None else backend_options._timeout
    store = _of_this_start(options.store)
    return _classes._create_process_group(
        store, options.group_rank, options.group_size, timeout, _reads_peers(), _make_gloo
    )


def _reads_peers() -> bool:
    """Whether ranks on one machine share memory and read that of each other. ``OPENREG_P2P_DISABLE=1`` forbids it."""
    value = os.environ.get(P2P_DISABLE, "0")
    if value not in ("0", "1"):
        raise ValueError(f"{P2P_DISABLE} is {value!r}: expected 0 or 1")
    return value == "0"


def _leak_groups() -> None:
    """In a forked child: the threads of the groups exist only in the parent, so the groups cannot be destroyed."""
    atexit.unregister(_classes._abort_all)
    for group in list(dist.distributed_c10d._world.pg_map):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def _of_this_start(store: "dist.Store") -> "dist.Store":
    """Without the prefix, the ranks of a restarted elastic job would read the addresses of the ranks before it."""
    return dist.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)


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
    options.global_ranks_in_group = list(range(size))
    return gloo(store, rank, size, options)


def _init_config(self: Any, backend: Any) -> None:
    """Notes whether the program has named a backend. torch creates the group of a configuration right after it.

    Also adds the device to the devices of the backend "fake", which a program registers at any time by an import.
    """
    global _names_no_backend
    fake = dist.Backend.backend_capability.get("fake")
    if fake is not None and DEVICE_NAME not in fake:
        fake.append(DEVICE_NAME)
    _torch_init_config(self, backend)
    _names_no_backend = str(backend) == dist.Backend.UNDEFINED


def _register_backend(self: Any, device: torch.device, backend_type: Any, backend: Any = None) -> None:
    """Adds what torch does only for NCCL: the default backend of the group, and Gloo for CPU tensors.

    If the program names no backend, torch takes only that of the accelerator. So a program with CPU tensors would fail as
    soon as the device is installed.
    """
    _torch_register_backend(self, device, backend_type, backend)
    # The split of a Gloo group needs the list. torch leaves it empty, which works only for the first group of a process.
    if device.type == "cpu" and isinstance(backend, dist.ProcessGroupGloo):
        options: Any = backend.options
        options.global_ranks_in_group = options.global_ranks_in_group or list(range(backend.size()))
    if _classes is None or not isinstance(backend, _classes.ProcessGroupOCCL):
        return
    self._set_default_backend(backend_type)
    if _names_no_backend:
        store = dist.PrefixStore("cpu", _of_this_start(self.get_group_store()))
        gloo = _make_gloo(store, backend.rank(), backend.size(), backend.options._timeout)
        _torch_register_backend(self, torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
