"""Private functions of ``torch._C`` that exist only in CUDA builds, for the device. CUDA's tests call them."""

from __future__ import annotations

from typing import Any

import torch


class _ThreadPools:
    """Routes the allocations of a thread by pool, as ``torch._C`` does; the device's routes have ids."""

    def __init__(self, bindings: Any) -> None:
        self.bindings = bindings
        self.routes: dict[tuple[int, tuple[int, int]], int] = {}

    def begin(self, device: int, pool: tuple[int, int]) -> None:
        self.routes[(device, pool)] = self.bindings.begin_thread_route(device, pool)

    def end(self, device: int, pool: tuple[int, int]) -> None:
        self.bindings.end_route(self.routes.pop((device, pool)))


def install(bindings: Any, device: Any) -> None:
    """Adds the functions to ``torch._C``. `bindings`: the extension module; `device`: the module of the device."""
    pools = _ThreadPools(bindings)

    def raw_alloc(size: int, stream: int) -> int:
        return device.caching_allocator_alloc(size, stream=stream)

    functions = {
        "attach_out_of_memory_observer": bindings.attach_out_of_memory_observer,
        "beginAllocateCurrentThreadToPool": pools.begin,
        "checkPoolLiveAllocations": bindings.check_pool_live_allocations,
        "cudaCachingAllocator_raw_alloc": raw_alloc,
        "cudaCachingAllocator_raw_delete": bindings.raw_delete,
        "endAllocateToPool": pools.end,
        "getCheckpointState": bindings.get_checkpoint_state,
        "getCurrentRawStream": lambda index: device.current_stream(index).native_handle,
        "getDevice": device.current_device,
        "memorySnapshot": lambda _: device.memory._snapshot(),
        "releasePool": bindings.release_pool,
        "resetAccumulatedMemoryStats": device.reset_accumulated_memory_stats,
        "setCheckpointPoolState": bindings.set_checkpoint_pool_state,
    }
    for name, function in functions.items():
        setattr(torch._C, f"_cuda_{name}", function)
