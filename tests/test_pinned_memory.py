"""Pinned host memory: statistics, is_pinned, asynchronous and synchronous copies."""

import pytest
import torch
from blocked_stream import held
from gpu import skip_with_cuda
from interpreter import execute

from torch_openreg._torch_versions import (
    HOST_STATS_COUNT_FREED_BLOCKS,
    STORAGES_ARE_PINNED_FOR_THE_ACCELERATOR,
)

MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("clean_memory")


def pinned(size: int, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    """Host memory that this device has pinned."""
    return torch.empty(size, dtype=dtype).pin_memory()


def current() -> dict[str, int]:
    return {
        key: value for key, value in torch.openreg.host_memory_stats().items() if key.endswith(".current")
    }


def test_keys_match_cuda():
    stats = ("allocations", "allocated_bytes", "active_requests", "active_bytes")
    expected = {f"{stat}.{metric}" for stat in stats for metric in ("current", "peak", "allocated", "freed")}
    times = ("host_alloc_time", "host_free_time")
    expected |= {f"{time}.{what}" for time in times for what in ("total", "max", "min", "count", "avg")}
    assert set(torch.openreg.host_memory_stats()) == expected | {"num_host_alloc", "num_host_free"}
    assert set(torch.openreg.host_memory_stats_as_nested_dict()) == {
        *stats,
        *times,
        *("num_host_alloc", "num_host_free"),
    }


@pytest.mark.skipif(not HOST_STATS_COUNT_FREED_BLOCKS, reason="torch 2.13 corrected the statistics")
def test_statistics_count_allocations():
    before = current()
    a = pinned(3000)  # rounded up to 4096
    now = current()
    assert now["active_bytes.current"] - before["active_bytes.current"] == 4096
    assert now["active_requests.current"] - before["active_requests.current"] == 1
    assert now["allocated_bytes.current"] - before["allocated_bytes.current"] == 4096
    del a
    now = current()
    assert now["active_bytes.current"] == before["active_bytes.current"]
    assert now["allocated_bytes.current"] - before["allocated_bytes.current"] == 4096  # cached
    torch.accelerator.empty_host_cache()
    assert current() == before


def test_reset_of_peak_and_accumulated_stats():
    a = pinned(MIB)
    del a
    torch.openreg.reset_peak_host_memory_stats()
    stats = torch.openreg.host_memory_stats()
    assert stats["active_bytes.peak"] == stats["active_bytes.current"]
    torch.openreg.reset_accumulated_host_memory_stats()
    stats = torch.openreg.host_memory_stats()
    assert stats["active_bytes.allocated"] == stats["active_bytes.freed"] == stats["num_host_alloc"] == 0
    b = pinned(MIB)  # noqa: F841
    assert torch.openreg.host_memory_stats()["active_bytes.allocated"] == MIB


def test_is_pinned():
    a = torch.ones(4, 6).pin_memory()
    assert a.is_pinned() and a.t().is_pinned() and a[1:, 2:].is_pinned() and a.detach().is_pinned()
    assert a.pin_memory() is a
    assert not a.clone().is_pinned() and not (a + 1).is_pinned()
    assert not torch.ones(3).is_pinned()
    assert not torch.ones(3, device="openreg").is_pinned()
    assert torch.zeros(2, pin_memory=True).is_pinned() and torch.empty_like(a, pin_memory=True).is_pinned()
    strided = torch.ones(4, 6).t().pin_memory()
    assert strided.is_pinned() and strided.stride() == (1, 6)


@pytest.mark.skipif(
    not STORAGES_ARE_PINNED_FOR_THE_ACCELERATOR, reason="before torch 2.13, storages are pinned for CUDA"
)
def test_storage_is_pinned():
    a = torch.ones(4, 6).pin_memory()
    assert a.untyped_storage().is_pinned() and a.storage().is_pinned()
    assert not torch.ones(3).untyped_storage().is_pinned()
    assert torch.ones(3).untyped_storage().pin_memory().is_pinned()


def test_device_tensor_cannot_be_pinned():
    with pytest.raises(RuntimeError, match="pin"):
        torch.ones(2, device="openreg").pin_memory()


class Batch:
    def __init__(self, rows: list) -> None:
        self.data = torch.stack(rows)

    def pin_memory(self) -> "Batch":
        self.data = self.data.pin_memory()
        return self


@pytest.mark.parametrize("workers", [0, 1])
def test_data_loader_pins_custom_batches_and_dictionaries(workers):
    rows = [torch.full((3,), float(i)) for i in range(6)]
    for batch in torch.utils.data.DataLoader(rows, 3, collate_fn=Batch, pin_memory=True, num_workers=workers):
        assert batch.data.is_pinned()
    seen = []
    for batch in torch.utils.data.DataLoader(
        [{"x": row, "y": i} for i, row in enumerate(rows)], 2, pin_memory=True, num_workers=workers
    ):
        assert batch["x"].is_pinned() and batch["y"].is_pinned()
        seen.append(batch["x"].to("openreg", non_blocking=True))
    assert torch.cat(seen)[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


# Source and destination differ in dtype, in strides, in both, or not at all.
SHAPES = {
    "same": lambda host: host,
    "dtype": lambda host: host.to(torch.float64),
    "strides": lambda host: host.t(),
    "both": lambda host: host.t().to(torch.int32),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_copies_from_pinned_memory_to_the_device_do_not_synchronize(kind):
    stream = torch.openreg.Stream()
    source = torch.arange(20_000.0).view(100, 200).pin_memory()
    there = torch.zeros_like(SHAPES[kind](source).contiguous(), device="openreg")
    torch.openreg.synchronize()
    with torch.openreg.stream(stream), held(stream):
        there.copy_(source.t() if kind in ("strides", "both") else source, non_blocking=True)
        assert not stream.query()
    assert torch.equal(there.cpu(), SHAPES[kind](source))


@pytest.mark.parametrize("kind", SHAPES)
def test_copies_from_the_device_to_pinned_memory_do_not_synchronize(kind):
    stream = torch.openreg.Stream()
    source = torch.arange(20_000.0).view(100, 200)
    out = torch.zeros_like(SHAPES[kind](source).contiguous()).pin_memory()
    seen = out.numpy()  # for a race on purpose, which the race check does not see
    there = source.to("openreg")
    torch.openreg.synchronize()
    with torch.openreg.stream(stream), held(stream):
        out.copy_(there.t() if kind in ("strides", "both") else there, non_blocking=True)
        assert not stream.query()
        assert seen.sum() == 0
    assert torch.equal(out, SHAPES[kind](source))


def test_blocking_copies_synchronize():
    """Without non_blocking, the data is complete when the call returns, pinned or not."""
    there = torch.randn(300, 300, device="openreg")
    for out in (torch.empty(300, 300), torch.empty(300, 300).pin_memory()):
        there = there @ there * 1e-3
        out.copy_(there)
        expected = out.clone()
        torch.openreg.synchronize()
        assert torch.equal(out, expected)


def test_non_blocking_copies_of_pageable_memory_are_safe():
    """The source may change after the call. The destination is complete when the call returns."""
    host = torch.ones(100_000)
    there = host.to("openreg", non_blocking=True)
    host.fill_(7)
    assert there.sum().item() == 100_000
    for _ in range(5):
        there = there * 2
    back = torch.zeros(100_000)
    back.copy_(there, non_blocking=True)
    assert back.sum().item() == 3_200_000


@skip_with_cuda
def test_the_host_result_of_a_non_blocking_copy_is_pinned():
    stream, there = torch.openreg.Stream(), torch.ones(1000, device="openreg")
    torch.openreg.synchronize()
    with torch.openreg.stream(stream), held(stream):
        back = there.to("cpu", non_blocking=True)
        assert back.is_pinned() and not stream.query()
    assert back.sum().item() == 1000


def test_pinned_memory_is_not_reused_while_a_copy_writes_it():
    stream, there = torch.openreg.Stream(), torch.ones(1000, device="openreg")
    out = torch.zeros(1000).pin_memory()
    address = out.data_ptr()
    torch.openreg.synchronize()
    with torch.openreg.stream(stream), held(stream):
        out.copy_(there, non_blocking=True)
        active = torch.openreg.host_memory_stats()["active_requests.current"]
        del out
        assert pinned(1000, torch.float32).data_ptr() != address
        if HOST_STATS_COUNT_FREED_BLOCKS:
            assert torch.openreg.host_memory_stats()["active_requests.current"] == active
    assert pinned(1000, torch.float32).data_ptr() == address


def test_pinned_memory_is_not_reused_while_a_copy_reads_a_view():
    stream = torch.openreg.Stream()
    source = torch.ones(1000).pin_memory()
    address = source.data_ptr()
    with torch.openreg.stream(stream), held(stream):
        there = source[500:].to("openreg", non_blocking=True)
        del source
        assert pinned(1000, torch.float32).data_ptr() != address
    assert there.sum().item() == 500


@skip_with_cuda
@pytest.mark.simulated
def test_pinned_memory_is_reused_after_an_event_that_could_not_be_recorded():
    before = current()["active_bytes.current"]
    source = pinned(MIB)
    copied = source.to("openreg", non_blocking=True)
    with torch.openreg.faults([{"call": "orEventRecord", "action": "error", "code": "orErrorSystem"}]):
        del source
    torch.openreg.synchronize()
    torch.openreg.empty_host_cache()
    assert current()["active_bytes.current"] == before
    del copied


@pytest.mark.simulated
def test_pinned_memory_is_not_reused_if_its_event_cannot_be_queried():
    with held(torch.openreg.current_stream()):
        source = pinned(MIB)
        copied = source.to("openreg", non_blocking=True)
        address = source.data_ptr()
        del source
        with torch.openreg.faults([{"call": "orEventQuery", "action": "error", "code": "orErrorSystem"}]):
            other = pinned(MIB)
        assert other.data_ptr() != address
    del copied, other


def test_forked_child_may_free_pinned_memory_of_its_parent():
    program = """
        import os, torch
        a = torch.ones(4).pin_memory()
        b = a.to("openreg", non_blocking=True)
        child = os.fork()
        if child == 0:
            del a, b
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """
    execute(program)
