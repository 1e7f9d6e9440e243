"""``torch.openreg``: the device's module, as ``torch.cuda``.

Functions have the semantics of ``torch.cuda``. A device is opened at its first use.
"""

from torch import OutOfMemoryError

from . import dlpack  # noqa: F401  (wraps three functions of torch)
from ._lazy import _is_in_bad_fork, _lazy_init, init, is_initialized
from ._types import *  # noqa: F403
from ._types import __all__ as _types
from .amp import get_amp_supported_dtype, is_bf16_supported, is_tf32_supported
from .device import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    set_device,
    synchronize,
)
from .fault_injection import FaultCounts, faults, release_hangs, reset
from .graphs import (
    MemPool,
    OpenRegGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
    use_mem_pool,
)
from .hangs import watchdog
from .leaks import Leak, LeakError, check_leaks
from .memory import *  # noqa: F403
from .memory import __all__ as _memory
from .monitor import (
    OperatorStats,
    OperatorTotals,
    assert_no_sync,
    fallback,
    get_sync_debug_mode,
    operator_stats,
    operator_totals,
    record_operator_stats,
    reset_operator_stats,
    set_sync_debug_mode,
)
from .process import ipc_collect
from .races import Race, RaceAccess, RaceError, check_races
from .random import (
    _get_rng_state_offset,
    _set_rng_state_offset,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .schedule import Schedule, get_schedule, schedule, set_schedule
from .storage import get_backend_meta, get_storage_name, set_backend_meta, set_storage_name
from .stream import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    _sleep,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)

__all__ = [
    *_memory,
    *_types,
    "Event",
    "ExternalStream",
    "FaultCounts",
    "Leak",
    "LeakError",
    "MemPool",
    "OpenRegGraph",
    "OperatorStats",
    "OperatorTotals",
    "OutOfMemoryError",
    "Race",
    "RaceAccess",
    "RaceError",
    "Schedule",
    "Stream",
    "StreamContext",
    "_get_rng_state_offset",
    "_is_in_bad_fork",
    "_lazy_init",
    "_set_rng_state_offset",
    "_sleep",
    "assert_no_sync",
    "can_device_access_peer",
    "check_leaks",
    "check_races",
    "current_device",
    "current_stream",
    "default_generators",  # noqa: F405
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "fallback",
    "faults",
    "get_amp_supported_dtype",
    "get_backend_meta",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "get_schedule",
    "get_storage_name",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
    "operator_stats",
    "operator_totals",
    "record_operator_stats",
    "release_hangs",
    "reset",
    "reset_operator_stats",
    "schedule",
    "set_backend_meta",
    "set_device",
    "set_schedule",
    "set_storage_name",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "synchronize",
    "use_mem_pool",
    "watchdog",
]


def __getattr__(name: str) -> object:
    if name == "default_generators":  # lazy: do not count devices at import
        from . import random

        return random.default_generators
    if name == "_initialized":  # read by torch.utils.checkpoint, to decide whether to save random states
        return is_initialized()
    if name == "profiler":  # a submodule, as torch.cuda.nvtx; imported lazily
        from importlib import import_module

        return import_module(f"{__name__}.profiler")
    if name == "Scheduling":
        # Inductor asks for this at the first compilation. It is registered here, with settings that the attributes
        # cannot express; the error below makes Inductor keep that.
        from torch_openreg import compiler

        compiler.register_for_inductor()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
