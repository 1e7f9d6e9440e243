"""Device and pinned memory: statistics, limits, settings, snapshots.

Functions have the semantics of ``torch.cuda.memory``. Sizes are in bytes; ``device`` is an index, a device or, by
default, the current device.
"""

import contextlib
import pickle
import sys
from collections import OrderedDict
from collections.abc import Iterator
from os import PathLike
from typing import Any

import torch

from torch_openreg import _C
from torch_openreg._name import DEVICE_NAME

from ._lazy import _lazy_init, is_initialized
from .device import DeviceLike, index_of
from .stream import current_stream

__all__ = [
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "device_memory_used",
    "empty_cache",
    "empty_host_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]

# ---- Statistics


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """``memory_stats`` as nested dictionaries; empty before the first use of the device."""
    return _C.memory_stats(index_of(device)) if is_initialized() else {}


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """All counters of the device's pool, by name: ``"allocated_bytes.small_pool.peak"``."""
    return _flat(memory_stats_as_nested_dict(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes currently allocated by tensors."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Peak of ``memory_allocated`` since the last ``reset_peak_memory_stats``."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes currently reserved by the allocator: allocated by tensors, or cached."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Peak of ``memory_reserved`` since the last ``reset_peak_memory_stats``."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Sets every ``peak`` to the ``current`` value."""
    torch._C._accelerator_resetPeakStats(_checked(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Sets every ``allocated``, ``freed`` and ``num_...`` counter to 0."""
    torch._C._accelerator_resetAccumulatedStats(_checked(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total memory of the device."""
    return torch._C._accelerator_getMemoryInfo(_checked(device))


def device_memory_used(device: DeviceLike = None) -> int:
    """Used memory of the device, including cached memory."""
    free, total = mem_get_info(device)
    return total - free


_SIZES = ("B  ", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNTS = (" ", "K", "M")
_BYTES, _NUMBER = True, False
_ROWS = [
    ("allocated_bytes", "Allocated memory", _BYTES),
    ("active_bytes", "Active memory", _BYTES),
    ("requested_bytes", "Requested memory", _BYTES),
    ("reserved_bytes", "Reserved memory", _BYTES),
    ("inactive_split_bytes", "Non-releasable memory", _BYTES),
    ("allocation", "Allocations", _NUMBER),
    ("active", "Active allocs", _NUMBER),
    ("segment", "Reserved segments", _NUMBER),
    ("inactive_split", "Non-releasable allocs", _NUMBER),
]


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The statistics as a printable table; ``abbreviated`` omits the rows of the small and large pool."""
    _lazy_init()
    index = index_of(device)
    stats = memory_stats(index)
    width = 75
    lines = [
        "=" * width,
        f" PyTorch {DEVICE_NAME} memory summary, device ID {index}".center(width),
        "-" * width,
    ]
    ooms = f"OOMs: {stats['num_ooms']:<12d}"
    lines += [
        f"{ooms:>32} |        malloc retries: {stats['num_alloc_retries']:<8d}".ljust(width),
        "=" * width,
    ]
    lines += ["        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  "]
    for key, name, kind in _ROWS:
        pools = [
            ("all", name),
            ("large_pool", "      from large pool"),
            ("small_pool", "      from small pool"),
        ]
        lines += ["-" * width]
        for pool, label in pools[: 1 if abbreviated else 3]:
            lines += [_row(stats, f"{key}.{pool}", label, kind, f"{key}.all")]
    for key, name in (
        ("oversize_allocations", "Oversize allocations"),
        ("oversize_segments", "Oversize segments"),
    ):
        lines += ["-" * width, _row(stats, key, name, _NUMBER, key)]
    return "".join(f"|{line}|\n" for line in [*lines, "=" * width])


def _row(stats: dict[str, int], key: str, label: str, kind: bool, scale: str) -> str:
    """One line. The unit of each column is chosen from the ``scale`` row, so that values in a column are comparable."""
    columns = []
    for column in ("current", "peak", "allocated", "freed"):
        amount, measure = stats[f"{key}.{column}"], float(stats[f"{scale}.{column}"])
        units, step, enough = (_SIZES, 1024, 768 * 1024) if kind == _BYTES else (_COUNTS, 1000, 750 * 1000)
        unit = 0
        while measure >= enough and unit + 1 < len(units):
            amount, measure, unit = amount // step, measure / step, unit + 1
        columns.append(f"{amount:6d} {units[unit]}" if kind == _BYTES else f"{amount:7d} {units[unit]} ")
    return f" {label:<21} | " + " | ".join(columns) + " "


# ---- The cache and its limits


def empty_cache() -> None:
    """Releases cached segments without blocks in use to the devices."""
    if is_initialized():
        torch._C._accelerator_emptyCache()


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Limits the memory that this process reserves to a fraction of the device's memory."""
    if not isinstance(fraction, float):
        raise TypeError(f"Invalid type for fraction argument, must be `float`, got {type(fraction).__name__}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _C.set_memory_fraction(fraction, _checked(device))


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    return _C.get_memory_fraction(_checked(device))


def caching_allocator_enable(value: bool = True) -> None:
    """Enables or disables caching. Without caching, freed memory is released immediately: slow, for debugging."""
    if is_initialized():
        _C.set_caching(value)


@contextlib.contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Disables caching for a ``with`` block, process-wide."""
    before = _C.is_caching()
    _C.set_caching(False)
    try:
        yield
    finally:
        _C.set_caching(before)


def get_allocator_backend() -> str:
    """Always ``"native"``."""
    return "native"


def _set_allocator_settings(env: str) -> None:
    """Sets allocator settings in the format of ``OPENREG_ALLOC_CONF``; other keys have their environment values."""
    _C.set_allocator_settings(env)


def caching_allocator_alloc(
    size: int, device: DeviceLike = None, stream: "torch.Stream | int | None" = None
) -> int:
    """Allocates memory without a tensor and returns its address. ``stream`` is a stream or a native handle."""
    if size < 0:
        raise ValueError(f"Invalid memory size: {size}; expected a size of 0 or more")
    index = _checked(device)
    if stream is None:
        stream = current_stream(index)
    if isinstance(stream, int):
        stream_id, owner = _C.external_stream_id(stream) if stream else (0, index)
    elif isinstance(stream, torch.Stream):
        stream_id, owner = stream.stream_id, stream.device_index
    else:
        raise TypeError(
            f"invalid type {type(stream).__name__} for stream: expected a torch.Stream or a native handle"
        )
    if owner != index:
        raise ValueError(f"the stream belongs to device {owner}, not to device {index}")
    return _C.raw_allocate(size, stream_id, index)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees memory from ``caching_allocator_alloc``."""
    _C.raw_delete(mem_ptr)


# ---- Pinned memory


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """``host_memory_stats`` as nested dictionaries; empty before the first use of the device."""
    return _C.host_memory_stats() if is_initialized() else {}


def host_memory_stats() -> dict[str, int]:
    """All counters of pinned memory, by name: ``"active_bytes.current"``. Times are in microseconds."""
    return _flat(host_memory_stats_as_nested_dict())


def reset_peak_host_memory_stats() -> None:
    _C.reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    _C.reset_accumulated_host_memory_stats()


def empty_host_cache() -> None:
    """Releases cached pinned memory."""
    _C.empty_host_cache()


# ---- Snapshots and history


def memory_snapshot(
    mempool_id: tuple[int, int] | None = None, include_traces: bool = True
) -> list[dict[str, Any]]:
    """The segments of all devices with their blocks, or only those of the pool ``mempool_id``."""
    segments, _ = _C.memory_snapshot(False)
    return [one for one in segments if mempool_id in (None, (0, 0), one["segment_pool_id"])]


_CONTEXTS = (None, "state", "alloc", "all")


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: DeviceLike = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: list[str] | None = None,
) -> None:
    """Records allocations and frees with their stacks, for ``_snapshot``.

    ``enabled``: ``"state"`` records memory in use, ``"all"`` every allocation and free, ``None`` disables recording.
    ``context``: the events for which stacks are recorded. ``stacks``: ``"python"``, or ``"all"`` to include C++ frames.
    As in ``torch.cuda``, it applies to all devices; ``device`` is ignored.
    """
    for name, value, known in (
        ("enabled", enabled, (None, "state", "all")),
        ("context", context, _CONTEXTS),
        ("stacks", stacks, ("python", "all")),
    ):
        if value not in known:
            raise RuntimeError(f"invalid {name} {value!r}: expected one of {', '.join(map(repr, known))}")
    _lazy_init()
    entries = max_entries if enabled == "all" else 1
    _C.record_memory_history(
        enabled is not None,
        _CONTEXTS.index(context),
        stacks == "all",
        entries,
        clear_history,
        skip_actions or [],
    )


def _allocation_traceback(data_ptr: int) -> list[dict[str, Any]] | None:
    """The stack of the allocation at this address; ``None`` if it is free or its stack was not recorded.

    ``data_ptr`` is the start of an allocation, for instance ``tensor.untyped_storage().data_ptr()``.
    """
    return _C.allocation_traceback(data_ptr)


def _snapshot(device: DeviceLike = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """Segments and history of all devices, in the format of ``torch.cuda._memory_viz``.

    ``augment_with_fx_traces`` adds the nodes of ``torch.fx`` to the frames of generated code.
    """
    segments, traces = _C.memory_snapshot(True)
    snapshot: Any = {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": _C.allocator_settings(),
        "external_annotations": [],
    }
    if augment_with_fx_traces:
        from torch._utils import _augment_memory_snapshot_stack_traces

        snapshot = _augment_memory_snapshot_stack_traces(snapshot)
    return snapshot


def _dump_snapshot(
    filename: "str | PathLike[str]" = "dump_snapshot.pickle", augment_with_fx_traces: bool = False
) -> None:
    """Writes ``_snapshot`` to a file for the viewer at pytorch.org/memory_viz."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(augment_with_fx_traces=augment_with_fx_traces), file)


def _checked(device: DeviceLike) -> int:
    _lazy_init()
    index = index_of(device)
    _C.device_properties(index)  # raises for an invalid index
    return index


def _flat(nested: dict[Any, Any], prefix: str = "") -> dict[str, int]:
    flat: list[tuple[str, int]] = []
    for key, value in nested.items():
        name = prefix + ("_".join(map(str, key)) if isinstance(key, tuple) else key)
        flat += _flat(value, f"{name}.").items() if isinstance(value, dict) else [(name, value)]
    return OrderedDict(sorted(flat))
