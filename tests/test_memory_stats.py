"""Memory statistics, summary, limits and raw allocations."""

import re
import threading

import pytest
import torch
import torch.cuda.memory
from blocked_stream import held
from interpreter import execute

from torch_openreg._name import DEVICE_NAME

MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("clean_memory")
POOLED = (
    *("allocation", "segment", "active", "inactive_split"),
    *("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes"),
)
NUMBERS = (
    *("num_alloc_retries", "num_ooms", "num_oom_rejections", "num_sync_all_streams"),
    *("num_device_alloc", "num_device_free", "max_split_size"),
)
METRICS = ("current", "peak", "allocated", "freed")


def bytes_of(size: int, device: str = "openreg") -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


class Difference:
    """Change of each statistic since construction."""

    def __init__(self) -> None:
        self.before = torch.openreg.memory_stats()

    def __getitem__(self, key: str) -> int:
        return torch.openreg.memory_stats()[key] - self.before[key]


def stats_of(module) -> dict[str, int]:
    """Without the statistics of private pools, which exist only while there are private pools."""
    return {
        k: v for k, v in module.memory_stats().items() if not k.startswith("reserved_bytes_by_private_pools")
    }


def test_keys_match_cuda():
    expected = {
        f"{stat}.{pool}.{m}"
        for stat in POOLED
        for pool in ("all", "small_pool", "large_pool")
        for m in METRICS
    }
    expected |= {f"oversize_{what}.{m}" for what in ("allocations", "segments") for m in METRICS}
    assert set(stats_of(torch.openreg)) == expected | set(NUMBERS)
    assert set(stats_of(torch.accelerator)) == (expected | set(NUMBERS)) - {"num_oom_rejections"}
    nested = torch.openreg.memory_stats_as_nested_dict()
    assert set(nested) - set(NUMBERS) == {
        *POOLED,
        *("oversize_allocations", "oversize_segments", "reserved_bytes_by_private_pools"),
    }
    assert nested["reserved_bytes"]["all"]["current"] == torch.openreg.memory_reserved()


def test_flat_and_nested_and_accelerator_agree():
    a = bytes_of(3 * MIB)  # noqa: F841
    flat, accelerator = torch.openreg.memory_stats(), torch.accelerator.memory_stats()
    assert {key: flat[key] for key in accelerator} == dict(accelerator)
    assert list(flat) == sorted(flat)


def test_small_and_large_blocks_are_counted_separately():
    change = Difference()
    small, large = bytes_of(1000), bytes_of(3 * MIB)
    assert change["allocated_bytes.small_pool.current"] == 1024
    assert change["requested_bytes.small_pool.current"] == 1000
    assert change["allocated_bytes.large_pool.current"] == 3 * MIB
    assert change["allocation.all.current"] == change["active.all.current"] == 2
    assert change["reserved_bytes.large_pool.current"] == 20 * MIB
    assert change["segment.large_pool.current"] == 1
    del small, large
    assert change["allocation.all.current"] == change["active.all.current"] == 0
    assert change["allocation.all.freed"] == 2
    assert change["allocated_bytes.all.freed"] == 3 * MIB + 1024


def test_inactive_split_blocks_are_counted():
    change = Difference()
    a, b = bytes_of(3 * MIB), bytes_of(4 * MIB)
    assert change["inactive_split.large_pool.current"] == 1
    assert change["inactive_split_bytes.large_pool.current"] == 13 * MIB
    del a
    assert change["inactive_split.large_pool.current"] == 2
    assert change["inactive_split_bytes.large_pool.current"] == 16 * MIB
    del b
    assert change["inactive_split.large_pool.current"] == 0
    assert change["inactive_split_bytes.large_pool.current"] == 0


def test_small_inactive_split_blocks_add_up():
    change = Difference()
    blocks = [bytes_of(size) for size in (500, 600, 3000, 512, 70_000, 600)]
    segment = change["reserved_bytes.small_pool.current"]
    for _ in range(6):
        blocks.pop(0)
        idle, active = (
            change["inactive_split_bytes.small_pool.current"],
            change["active_bytes.small_pool.current"],
        )
        assert idle + active == segment
    torch.openreg.empty_cache()
    assert change["inactive_split_bytes.small_pool.current"] == 0
    assert change["inactive_split.small_pool.current"] == 0
    assert change["reserved_bytes.all.current"] == 0
    assert change["num_device_alloc"] == change["num_device_free"] == 1


def test_freed_block_used_by_another_stream_stays_active():
    stream, change = torch.openreg.Stream(), Difference()
    a = bytes_of(5000)
    with held(stream):
        a.record_stream(stream)
        del a
        assert change["allocated_bytes.all.current"] == 0
        assert change["active_bytes.all.current"] == 5120
    bytes_of(5000)
    torch.openreg.empty_cache()
    assert change["active_bytes.all.current"] == 0


def test_reset_of_peak_and_accumulated_stats():
    a = bytes_of(8 * MIB)
    del a
    torch.openreg.reset_peak_memory_stats()
    assert torch.openreg.max_memory_allocated() == torch.openreg.memory_allocated()
    assert torch.openreg.max_memory_reserved() == torch.openreg.memory_reserved()
    b = bytes_of(4 * MIB)
    del b
    assert torch.openreg.max_memory_allocated() == torch.openreg.memory_allocated() + 4 * MIB
    torch.openreg.reset_accumulated_memory_stats()
    stats = stats_of(torch.openreg)
    assert [stats[key] for key in NUMBERS if key != "max_split_size"] == [0] * 6
    assert not any(value for key, value in stats.items() if key.endswith((".allocated", ".freed")))
    assert torch.openreg.max_memory_allocated() == torch.openreg.memory_allocated() + 4 * MIB


def test_torch_accelerator_uses_the_same_statistics():
    torch.accelerator.reset_accumulated_memory_stats()
    torch.accelerator.reset_peak_memory_stats()
    assert torch.openreg.memory_stats()["allocation.all.allocated"] == 0
    bytes_of(30 * MIB)
    torch.accelerator.synchronize()
    torch.openreg.empty_cache()
    assert torch.accelerator.max_memory_reserved() == torch.openreg.max_memory_reserved() >= 30 * MIB
    assert torch.accelerator.max_memory_allocated() == torch.openreg.max_memory_allocated() >= 30 * MIB


def test_statistics_are_per_device():
    first, second = torch.openreg.memory_allocated(0), torch.openreg.memory_allocated("openreg:1")
    a = bytes_of(MIB, "openreg:1")  # noqa: F841
    assert torch.openreg.memory_allocated(0) == first
    assert torch.openreg.memory_allocated(torch.device("openreg:1")) == second + MIB
    with torch.openreg.device(1):
        assert torch.openreg.memory_allocated() == second + MIB
    with pytest.raises(torch.AcceleratorError, match="out of range"):
        torch.openreg.memory_stats(99)
    with pytest.raises(ValueError, match="cpu"):
        torch.openreg.memory_stats("cpu")


@pytest.mark.simulated
def test_alloc_retries_and_ooms_are_counted():
    change = Difference()
    with pytest.raises(torch.OutOfMemoryError):
        bytes_of(1 << 50)
    assert change["num_alloc_retries"] == change["num_ooms"] == change["num_sync_all_streams"] == 1
    big = bytes_of(5 << 30)
    del big
    bytes_of(6 << 30)
    assert (change["num_alloc_retries"], change["num_ooms"]) == (2, 1)


@pytest.mark.parametrize("abbreviated", [False, True])
def test_memory_summary_matches_cuda(monkeypatch, abbreviated):
    keep = [bytes_of(size) for size in (1000, 5 * MIB, 900 * MIB)]  # noqa: F841
    ours = torch.openreg.memory_summary(abbreviated=abbreviated)
    stats = torch.openreg.memory_stats()
    monkeypatch.setattr(torch.cuda.memory, "memory_stats", lambda device: stats)
    monkeypatch.setattr(torch.cuda.memory, "_get_device_index", lambda device, optional: 0)
    theirs = torch.cuda.memory.memory_summary(abbreviated=abbreviated)
    for before, after in (
        ("PyTorch CUDA", f"PyTorch {DEVICE_NAME}"),
        *(("CUDA OOMs", "OOMs"), ("cudaMalloc", "malloc"), ("Oversize GPU", "Oversize"), ("GPU r", "R")),
    ):
        theirs = theirs.replace(before, after)
    assert [re.sub(" +", " ", line) for line in ours.splitlines()] == [
        re.sub(" +", " ", line) for line in theirs.splitlines()
    ]
    assert {len(line) for line in ours.splitlines()} == {77}


@pytest.mark.simulated
def test_memory_fraction_limits_reserved_memory():
    assert torch.openreg.get_per_process_memory_fraction() == 1.0
    torch.openreg.set_per_process_memory_fraction(0.25)
    try:
        assert torch.openreg.get_per_process_memory_fraction() == 0.25
        assert torch.openreg.get_per_process_memory_fraction(1) == 1.0
        with pytest.raises(torch.OutOfMemoryError, match=r"2.00 GiB allowed by.*raise the fraction"):
            bytes_of(3 << 30)
        assert bytes_of(1 << 30).numel() == 1 << 30  # smaller allocations still succeed
        bytes_of(3 << 30, "openreg:1")
    finally:
        torch.openreg.set_per_process_memory_fraction(1.0)
    assert bytes_of(3 << 30).numel() == 3 << 30
    with pytest.raises(TypeError, match="int"):
        torch.openreg.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match=r"value: 1\.5"):
        torch.openreg.set_per_process_memory_fraction(1.5)


@pytest.mark.simulated
def test_out_of_memory_message_has_sizes_and_advice():
    keep, gone = bytes_of(6 << 30), bytes_of(1 << 30)
    del gone
    with pytest.raises(torch.OutOfMemoryError) as raised:
        bytes_of(5 << 30)
    message = str(raised.value)
    assert message.startswith(
        "openreg out of memory. Tried to allocate 5.00 GiB. GPU 0 has a total capacity of 8.00 GiB"
    )
    assert "6.00 GiB is allocated by PyTorch" in message
    assert re.search(
        r"and \S+ \S+ is reserved by PyTorch but unallocated, the largest free block has", message
    )
    assert "OPENREG_MEMORY" in message
    del keep
    assert bytes_of(5 << 30).numel() == 5 << 30


def test_out_of_memory_message_reports_fragmentation():
    """Enough memory is cached, but no free block is large enough."""
    program = """
        import torch
        blocks = [torch.empty(9 << 20, dtype=torch.uint8, device="openreg") for _ in range(12)]
        del blocks[::2]
        try:
            torch.empty(40 << 20, dtype=torch.uint8, device="openreg")
        except torch.OutOfMemoryError as error:
            print(error)
    """
    assert "max_split_size_mb" in execute(program, OPENREG_MEMORY="128M")


def test_free_and_used_memory():
    free, total = torch.openreg.mem_get_info()
    assert total == torch.openreg.get_device_properties().total_memory
    used = torch.openreg.device_memory_used()
    assert used == total - free
    a = bytes_of(64 * MIB)  # noqa: F841
    assert torch.openreg.device_memory_used() == used + 64 * MIB
    assert torch.openreg.mem_get_info("openreg:1")[1] == total


def test_disabled_caching_frees_memory_immediately():
    with torch.openreg.caching_allocator_disabled():
        change = Difference()
        a, b = bytes_of(1000), bytes_of(1000)
        assert change["segment.all.current"] == 2
        del a
        assert change["segment.all.current"] == 1
        with pytest.raises(KeyError), torch.openreg.caching_allocator_disabled():
            raise KeyError
        assert torch.ones(1000, device="openreg").nonzero().numel() == 1000
        del b
        assert change["segment.all.current"] == 0
    a = bytes_of(1000)
    reserved = torch.openreg.memory_reserved()
    del a
    assert torch.openreg.memory_reserved() == reserved
    assert torch.openreg.get_allocator_backend() == "native"


def test_raw_allocations_come_from_the_pool():
    stream, before = torch.openreg.Stream(1), torch.openreg.memory_allocated(1)
    address = torch.openreg.caching_allocator_alloc(1000, 1, stream)
    assert torch.openreg.memory_allocated(1) - before == 1024
    torch.openreg.caching_allocator_delete(address)
    assert torch.openreg.memory_allocated(1) == before
    with torch.openreg.stream(stream):
        assert bytes_of(1000, "openreg:1").data_ptr() == address
    with pytest.raises(ValueError, match="deleted already"):
        torch.openreg.caching_allocator_delete(address)
    handle = torch.openreg.caching_allocator_alloc(10, stream=torch.openreg.Stream().native_handle)
    torch.openreg.caching_allocator_delete(handle)
    assert torch.openreg.caching_allocator_alloc(0) == 0
    with pytest.raises(ValueError, match="Invalid memory size: -1024"):
        torch.openreg.caching_allocator_alloc(-1024)
    torch.openreg.caching_allocator_delete(0)
    with pytest.raises(TypeError, match="str"):
        torch.openreg.caching_allocator_alloc(10, stream="0")
    with pytest.raises(ValueError, match="device 1, not to device 0"):
        torch.openreg.caching_allocator_alloc(10, 0, stream)


def test_statistics_before_initialization_are_empty():
    program = """
        import torch
        assert torch.openreg.memory_stats() == {} == torch.openreg.host_memory_stats()
        assert torch.openreg.memory_allocated() == torch.openreg.max_memory_reserved() == 0
        torch.openreg.empty_cache()
        torch.openreg.caching_allocator_enable(True)
        assert not torch.openreg.is_initialized()
    """
    execute(program)


@pytest.mark.parametrize(
    "function",
    [
        torch.accelerator.memory_stats,
        torch.accelerator.reset_peak_memory_stats,
        torch.accelerator.reset_accumulated_memory_stats,
    ],
)
@pytest.mark.parametrize("index", [9, 100])
def test_torch_accelerator_raises_for_an_invalid_device(function, index):
    with pytest.raises(torch.AcceleratorError, match=f"device index {index} is out of range"):
        function(index)


def test_private_pool_statistics_are_kept_until_reset():
    torch.openreg.reset_peak_memory_stats()
    before = len(torch.openreg.memory_stats())
    pool = torch.openreg.MemPool()
    with torch.openreg.use_mem_pool(pool):
        bytes_of(MIB)
    name = "reserved_bytes_by_private_pools.{}_{}.all.peak".format(*pool.id)
    del pool
    torch.openreg.empty_cache()
    assert torch.openreg.memory_stats()[name] == 2 * MIB
    torch.openreg.reset_peak_memory_stats()
    assert len(torch.openreg.memory_stats()) == before


def test_allocation_waits_for_memory_that_another_thread_is_freeing():
    """The device has 8 GiB. One thread allocates 4 to 6 GiB repeatedly while another empties the cache."""

    def work() -> None:
        try:
            for _ in range(20):
                for size in (5 << 30, 4 << 30, 6 << 30):
                    torch.empty(size, dtype=torch.uint8, device="openreg:0")
                    torch.openreg.empty_cache()
        except BaseException as error:
            failed.append(error)

    def empty() -> None:
        while not done.is_set():
            torch.openreg.empty_cache()

    failed, done = [], threading.Event()
    emptying = threading.Thread(target=empty)
    emptying.start()
    work()
    done.set()
    emptying.join()
    assert not failed, failed


def test_empty_cache_increments_num_sync_all_streams(clean_memory):
    before = torch.openreg.memory_stats()["num_sync_all_streams"]
    torch.openreg.empty_cache()
    assert torch.openreg.memory_stats()["num_sync_all_streams"] == before + 1
