"""Calls that synchronize release the GIL, because a pending kernel may need it.

A call that holds the GIL deadlocks, so each call runs in a separate process.
"""

import pytest
from interpreter import execute

from torch_openreg._torch_versions import HAS_EMPTY_HOST_CACHE

KERNEL = """
import gc, io, threading, time, torch

@torch.library.custom_op("tests::slow", mutates_args=(), device_types="cpu")
def slow(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0.05)
    return x * 2

@slow.register_fake
def _(x):
    return torch.empty_like(x)

x = torch.ones(1000, device="openreg")
host, pinned = torch.zeros(1000), torch.zeros(1000).pin_memory()
slow(x).sum().item()  # imports of the first call
"""

WAITS = {
    "item": "assert slow(x).sum().item() == 2000",
    "copy": "assert host.copy_(slow(x)).sum() == 2000",
    "copy of a storage": "assert slow(x).untyped_storage().cpu().nbytes() == 4000",
    "save": "torch.save(slow(x), io.BytesIO())",
    "synchronize": "slow(x); torch.accelerator.synchronize()",
    "stream": "slow(x); torch.accelerator.current_stream().synchronize()",
    "event": "slow(x); torch.accelerator.current_stream().record_event().synchronize()",
    "empty_cache": "a = torch.ones(1 << 20, device='openreg'); del a; y = slow(x); torch.accelerator.empty_cache()",
    "empty_host_cache": "del pinned; y = slow(x); torch.openreg.empty_host_cache()",
    "empty_host_cache of the accelerator": "del pinned; y = slow(x); torch.accelerator.empty_host_cache()",
    "free without a cache": "torch.openreg.caching_allocator_enable(False); y = slow(x); del y; torch.ones(3, device='openreg')",
    "out of memory": "y = slow(x); b = [torch.empty(5 << 30, dtype=torch.uint8, device='openreg')]; b.clear(); "
    "b.append(torch.empty(6 << 30, dtype=torch.uint8, device='openreg'))",
    "settings": "y = slow(x); torch.openreg.caching_allocator_enable(False); torch.openreg.memory._snapshot()",
}


if not HAS_EMPTY_HOST_CACHE:
    del WAITS["empty_host_cache of the accelerator"]


@pytest.mark.parametrize("name", WAITS)
def test_synchronizing_calls_release_the_gil_for_python_kernels(name):
    execute(f"{KERNEL}\n{WAITS[name]}\ntorch.accelerator.synchronize()")


@pytest.mark.parametrize("first", ["", "torch.openreg.memory._record_memory_history()"])
def test_empty_cache_while_kernels_allocate(first):
    """The kernels need the pool's lock, and the GIL if stacks are recorded."""
    program = f"""
        import threading, torch
        {first}
        stop = threading.Event()

        def work():
            a = torch.ones(1000, device="openreg")
            with torch.openreg.stream(torch.openreg.Stream()):
                while not stop.is_set():
                    a.nonzero()

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(50):
            torch.empty(64 << 20, dtype=torch.uint8, device="openreg")
            torch.accelerator.empty_cache()
        stop.set()
        thread.join(30)
        assert not thread.is_alive()
    """
    execute(program)


@pytest.mark.parametrize("schedule", ["async", "blocking", "adversarial"])
def test_synchronization_ends_while_another_thread_keeps_launching(schedule):
    """It waits only for work that was launched before the call. The other thread launches until the end of the test."""
    program = """
        import threading, torch
        x = torch.zeros(100_000, device="openreg")
        y = torch.ones(3, device="openreg")
        host = torch.arange(1 << 22)
        begun, stop = threading.Event(), threading.Event()

        def launch():
            while not stop.is_set():
                for _ in range(50):
                    x.add_(1)
                begun.set()

        thread = threading.Thread(target=launch, daemon=True)
        thread.start()
        begun.wait()
        for _ in range(5):
            assert y.sum().item() == 3
            assert x.cpu().shape == x.shape
            assert y.nonzero().shape == (3, 1)
            assert host.to("openreg").cpu()[-1] == (1 << 22) - 1
            torch.accelerator.current_stream().record_event().synchronize()
            torch.accelerator.synchronize()
        assert thread.is_alive()
        stop.set()
        thread.join()
        assert x.min().item() == x.max().item() > 0
    """
    execute(program, OPENREG_SCHEDULE=schedule)


def test_synchronize_keeps_the_threads_num_threads():
    program = """
        import threading, torch
        torch.set_num_threads(2)
        ready, go, found = threading.Event(), threading.Event(), []

        def wait():
            torch.set_num_threads(1)
            ready.set()
            go.wait()
            torch.accelerator.synchronize()
            found.append(torch.get_num_threads())

        thread = threading.Thread(target=wait)
        thread.start()
        ready.wait()
        a = torch.randn(300, 300, device="openreg")
        for _ in range(50):
            a @ a
        go.set()
        thread.join()
        assert found == [1], found
    """
    for _ in range(3):
        execute(program)
