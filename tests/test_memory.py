"""Device memory: host access, caching, reuse, out of memory. Pinned host memory."""

import ctypes
import subprocess
import sys

import pytest
import torch
from blocked_stream import held

MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("clean_memory")


@pytest.mark.simulated
@pytest.mark.parametrize("access", ["ctypes.string_at(p, 1)", "ctypes.memset(p, 0, 1)"])
def test_host_access_to_device_pointer_faults(access):
    program = f"import torch, ctypes; p = torch.ones(16, device='openreg').data_ptr(); {access}"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert child.returncode == -11, child.stderr.decode()


def test_device_pointers_are_aligned_and_distinct():
    tensors = [torch.empty(n, dtype=torch.uint8, device="openreg") for n in range(1, 50)]
    pointers = sorted(t.data_ptr() for t in tensors)
    assert all(p % 512 == 0 for p in pointers)
    assert len(set(pointers)) == len(pointers)


def test_sizes_round_to_512_and_freed_memory_stays_reserved():
    before = torch.accelerator.memory_allocated()
    a = torch.empty(1000, device="openreg")
    assert torch.accelerator.memory_allocated() - before == 4096
    reserved = torch.accelerator.memory_reserved()
    assert reserved >= 4096
    del a
    assert torch.accelerator.memory_allocated() == before
    assert torch.accelerator.memory_reserved() == reserved


def test_freed_block_is_reused_immediately():
    a = torch.empty(1000, device="openreg")
    pointer = a.data_ptr()
    del a
    assert torch.empty(900, device="openreg").data_ptr() != 0
    b = torch.empty(1000, device="openreg")
    assert b.data_ptr() == pointer


@pytest.mark.simulated
def test_empty_cache_releases_memory():
    a = torch.empty(64 * MIB, dtype=torch.uint8, device="openreg")
    free, total = torch.accelerator.get_memory_info()
    del a
    torch.accelerator.empty_cache()
    free_after, _ = torch.accelerator.get_memory_info()
    assert total == 8 << 30
    assert free_after - free >= 64 * MIB


def test_zero_byte_allocation():
    a = torch.empty(0, device="openreg")
    assert a.data_ptr() == 0 and a.sum().item() == 0


@pytest.mark.simulated
@pytest.mark.parametrize("size", [1 << 50, 9 << 30])
def test_out_of_memory_reports_sizes_and_is_recoverable(size):
    with pytest.raises(
        torch.OutOfMemoryError, match=r"(?s)Tried to allocate .*total capacity of 8.00 GiB.*OPENREG_MEMORY"
    ):
        torch.empty(size, dtype=torch.uint8, device="openreg")
    assert torch.ones(4, device="openreg").sum().item() == 4


def test_out_of_memory_for_sizes_beyond_an_exabyte():
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate more than 1EB memory"):
        torch.empty(1 << 62, dtype=torch.uint8, device="openreg")


@pytest.mark.simulated
def test_cached_memory_is_released_before_out_of_memory():
    half = torch.empty(5 << 30, dtype=torch.uint8, device="openreg")
    del half
    other = torch.empty(6 << 30, dtype=torch.uint8, device="openreg")
    assert other.numel() == 6 << 30
    del other
    torch.accelerator.empty_cache()


def test_record_stream_delays_reuse_until_stream_work_completes():
    stream = torch.openreg.Stream()
    a = torch.empty(3000, device="openreg")
    pointer = a.data_ptr()
    with held(stream):
        a.record_stream(stream)
        del a
        b = torch.empty(3000, device="openreg")
        assert b.data_ptr() != pointer
    taken = [torch.empty(3000, device="openreg") for _ in range(200)]
    assert pointer in {t.data_ptr() for t in taken}


def test_record_stream_with_stream_of_another_device():
    """Stream ids are the same on every device, but the streams are different."""

    def pending() -> int:
        torch.openreg.empty_cache()  # processes pending frees
        stats = torch.openreg.memory_stats(0)
        return stats["active.all.current"] - stats["allocation.all.current"]

    assert pending() == 0
    stream, a = torch.openreg.Stream(1), torch.empty(3000, device="openreg:0")
    with held(stream):
        a.record_stream(stream)
        del a
        assert pending() == 1
    assert pending() == 0


def test_freed_block_is_not_reused_by_another_stream():
    a = torch.empty(5000, device="openreg")
    pointer = a.data_ptr()
    del a
    with torch.openreg.stream(torch.openreg.Stream()):
        b = torch.empty(5000, device="openreg")
        assert b.data_ptr() != pointer
    assert torch.empty(5000, device="openreg").data_ptr() == pointer


def test_memory_stats_count_allocations():
    torch.accelerator.reset_peak_memory_stats()
    before = torch.accelerator.memory_stats()
    a = torch.empty(MIB, dtype=torch.uint8, device="openreg")
    now = torch.accelerator.memory_stats()
    assert now["allocated_bytes.all.current"] - before["allocated_bytes.all.current"] == MIB
    del a
    assert torch.accelerator.max_memory_allocated() >= before["allocated_bytes.all.current"] + MIB


@pytest.mark.simulated
def test_splitting_and_merging_lose_no_memory():
    import random

    random.seed(0)
    start = torch.accelerator.memory_allocated()
    live = []
    for _ in range(3000):
        if live and random.random() < 0.5:
            live.pop(random.randrange(len(live)))
        else:
            live.append(
                torch.empty(
                    random.choice((1, 700, 40_000, 900_000, 3 * MIB)), dtype=torch.uint8, device="openreg"
                )
            )
    live.clear()
    assert torch.accelerator.memory_allocated() == start
    torch.accelerator.empty_cache()
    a = torch.empty(7 << 30, dtype=torch.uint8, device="openreg")
    assert a.numel() == 7 << 30
    del a
    torch.accelerator.empty_cache()


def test_pinned_memory():
    a = torch.ones(1000).pin_memory()
    assert a.is_pinned() and a[10:].is_pinned() and not torch.ones(2).is_pinned()
    assert torch.empty(10, pin_memory=True).is_pinned()
    assert torch.equal(a.to("openreg", non_blocking=True).cpu(), torch.ones(1000))
    with pytest.raises(RuntimeError, match="pin"):
        torch.ones(2, device="openreg").pin_memory()


def test_non_blocking_copies_from_and_to_pinned_memory_do_not_synchronize():
    stream = torch.openreg.Stream()
    source, out = torch.arange(100_000.0).pin_memory(), torch.zeros(100_000).pin_memory()
    seen = out.numpy()  # for a race on purpose, which the race check does not see
    with torch.openreg.stream(stream), held(stream):
        there = source.to("openreg", non_blocking=True)
        out.copy_(there, non_blocking=True)
        assert not stream.query()
        assert seen.sum() == 0
    assert torch.equal(out, source)


def test_pinned_memory_is_not_reused_while_a_copy_reads_it():
    stream = torch.openreg.Stream()
    source = torch.ones(1000).pin_memory()
    pointer = source.data_ptr()
    with torch.openreg.stream(stream), held(stream):
        there = source.to("openreg", non_blocking=True)
        del source
        assert torch.empty(1000).pin_memory().data_ptr() != pointer
    assert there.sum().item() == 1000


def test_pageable_sources_may_change_after_a_non_blocking_copy():
    host = torch.ones(100_000)
    a = host.to("openreg", non_blocking=True)
    host.zero_()
    assert a.sum().item() == 100_000


def test_data_loader_pins_batches():
    data = torch.utils.data.TensorDataset(torch.arange(10.0))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=5, pin_memory=True):
        assert batch.is_pinned()


def test_allocation_counts_for_the_tensors_device():
    a = torch.ones(4, device="openreg:1")
    assert ctypes.c_void_p(a.data_ptr()).value == a.data_ptr()
    assert torch.accelerator.memory_allocated("openreg:1") >= 512
