"""Memory snapshots and recorded history, which PyTorch's viewer can read."""

import io
import pickle

import pytest
import torch
import torch.cuda._memory_viz as viewer
from blocked_stream import held

MIB = 1 << 20
memory = torch.openreg.memory


def bytes_of(size: int, device: str = "openreg") -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


@pytest.fixture(autouse=True)
def recording(clean_memory):
    memory._record_memory_history(clear_history=True, stacks="python")
    yield
    memory._record_memory_history(None)


def actions(device: int = 0, **where: object) -> list[str]:
    entries = memory._snapshot()["device_traces"][device]
    return [one["action"] for one in entries if all(one[key] == value for key, value in where.items())]


def block_at(address: int) -> dict:
    blocks = [block for segment in torch.openreg.memory_snapshot() for block in segment["blocks"]]
    return next(block for block in blocks if block["address"] == address)


def test_segments_and_blocks_add_up():
    stream = torch.openreg.Stream()
    keep = [bytes_of(size) for size in (700, 3 * MIB, 30 * MIB)] + [bytes_of(100, "openreg:1")]  # noqa: F841
    with torch.openreg.stream(stream):
        there = bytes_of(2000)  # noqa: F841
    segments = torch.openreg.memory_snapshot()
    for segment in segments:
        sizes = dict.fromkeys(("active_allocated", "active_pending_free", "inactive"), 0)
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address
            sizes[block["state"]] += block["size"]
            address += block["size"]
        assert address - segment["address"] == segment["total_size"] == sum(sizes.values())
        assert segment["allocated_size"] == sizes["active_allocated"]
        assert segment["active_size"] == sizes["active_allocated"] + sizes["active_pending_free"]
    for device in (0, 1):
        mine = [segment for segment in segments if segment["device"] == device]
        assert sum(one["total_size"] for one in mine) == torch.openreg.memory_reserved(device)
        assert sum(one["allocated_size"] for one in mine) == torch.openreg.memory_allocated(device)
    assert {one["segment_type"] for one in segments} == {"small", "large"}
    assert {0, stream.stream_id} <= {one["stream"] for one in segments}


def test_block_state():
    stream, a = torch.openreg.Stream(), bytes_of(5000)
    address = a.data_ptr()
    assert block_at(address)["state"] == "active_allocated"
    assert (block_at(address)["requested_size"], block_at(address)["size"]) == (5000, 5120)
    with held(stream):
        a.record_stream(stream)
        del a
        assert block_at(address)["state"] == "active_pending_free"
        assert actions(addr=address)[-2:] == ["alloc", "free_requested"]
    torch.openreg.empty_cache()
    assert "free_completed" in actions(addr=address)


def test_history_has_every_action():
    a = bytes_of(30 * MIB)
    address = a.data_ptr()
    del a
    torch.openreg.empty_cache()
    assert actions(addr=address) == [
        "segment_alloc",
        "alloc",
        "free_requested",
        "free_completed",
        "segment_free",
    ]
    b = bytes_of(100, "openreg:1")
    assert actions(1, addr=b.data_ptr())[-1] == "alloc" and actions(0, addr=b.data_ptr()) == []
    with pytest.raises(torch.OutOfMemoryError):
        bytes_of(1 << 50)
    last = memory._snapshot()["device_traces"][0]
    oom = next(one for one in reversed(last) if one["action"] == "oom")
    assert oom["size"] == 1 << 50
    assert 0 < oom["device_free"] <= torch.openreg.get_device_properties(0).total_memory
    times = [one["time_us"] for one in last]
    assert times == sorted(times) and times[0] > 0


def test_stacks_contain_the_allocating_line():
    def allocate_here() -> torch.Tensor:
        return bytes_of(5000)

    a = allocate_here()
    names = [frame["name"] for frame in block_at(a.data_ptr())["frames"]]
    assert names[:2] == ["bytes_of", "allocate_here"]
    frame = block_at(a.data_ptr())["frames"][1]
    assert frame["filename"] == __file__ and frame["line"] > 0
    entry = [one for one in memory._snapshot()["device_traces"][0] if one.get("addr") == a.data_ptr()][-1]
    assert entry["frames"] == block_at(a.data_ptr())["frames"]


@pytest.mark.parametrize("stacks", ["python", "all"])
def test_cpp_stacks_are_recorded_on_request(stacks):
    memory._record_memory_history(stacks=stacks)
    a = bytes_of(5000)
    names = [frame["name"] for frame in block_at(a.data_ptr())["frames"]]
    assert any("::" in name for name in names) == (stacks == "all")


@pytest.mark.parametrize(
    ("context", "with_stack"),
    [
        (None, {"state": False, "alloc": False, "free_requested": False}),
        ("state", {"state": True, "alloc": False, "free_requested": False}),
        ("alloc", {"state": True, "alloc": True, "free_requested": False}),
        ("all", {"state": True, "alloc": True, "free_requested": True}),
    ],
)
def test_context_selects_recorded_stacks(context, with_stack):
    memory._record_memory_history(context=context, stacks="python", clear_history=True)
    a, b = bytes_of(5000), bytes_of(6000)
    found = {"state": bool(block_at(a.data_ptr())["frames"])}
    del b
    for entry in memory._snapshot()["device_traces"][0]:
        if entry["action"] in ("alloc", "free_requested"):
            found[entry["action"]] = bool(entry["frames"])
    assert found == with_stack


def test_max_entries_keeps_the_latest():
    memory._record_memory_history(max_entries=4, clear_history=True, stacks="python")
    for size in range(1, 20):
        bytes_of(size)
    entries = memory._snapshot()["device_traces"][0]
    assert [(one["action"], one["size"]) for one in entries[:3]] == [
        ("alloc", 19),
        ("free_requested", 19),
        ("free_completed", 19),
    ]
    assert len(entries) == 4


def test_skip_actions():
    memory._record_memory_history(clear_history=True, skip_actions=["free_requested", "snapshot"])
    bytes_of(10)
    assert {"alloc", "free_completed"} <= set(actions()) <= {"alloc", "free_completed", "segment_alloc"}
    with pytest.raises(RuntimeError, match="Unknown TraceEntry action: freed"):
        memory._record_memory_history(skip_actions=["freed"])


def test_context_state_keeps_only_the_stacks_of_memory_in_use():
    torch.openreg.empty_cache()
    memory._record_memory_history(context="state", stacks="python", clear_history=True)
    a = bytes_of(10)
    assert block_at(a.data_ptr())["frames"]
    del a
    assert "frames': [{" not in str(memory._snapshot())


def test_allocation_traceback():
    a = bytes_of(3 * MIB)
    assert "bytes_of" in [frame["name"] for frame in memory._allocation_traceback(a.data_ptr())]
    assert memory._allocation_traceback(a[1:].data_ptr()) is None
    address = a.data_ptr()
    del a
    assert memory._allocation_traceback(address) is None


def test_a_stack_of_an_earlier_recording_is_not_that_of_a_new_allocation():
    a = bytes_of(10)
    memory._record_memory_history(None)
    assert memory._allocation_traceback(a.data_ptr())
    address = a.data_ptr()
    del a
    a = bytes_of(10)
    assert a.data_ptr() == address and memory._allocation_traceback(address) is None


def test_backward_allocations_have_the_stack_of_the_forward_in_anomaly_mode():
    a = torch.ones(10, device="openreg", requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=False):
        (a * 2).sum().backward()
    entries = memory._snapshot()["device_traces"][0]
    forward = [line for entry in entries for line in entry.get("forward_frames", [])]
    assert any("(a * 2).sum().backward()" in line for line in forward)


def test_state_mode_records_no_history():
    memory._record_memory_history("state", clear_history=True)
    a = bytes_of(10)
    assert block_at(a.data_ptr())["frames"]
    assert len(memory._snapshot()["device_traces"][0]) == 1


def test_nothing_is_recorded_after_recording_ends():
    memory._record_memory_history(None)
    bytes_of(10)
    assert memory._snapshot()["device_traces"][0] == []


@pytest.mark.parametrize("wrong", [{"enabled": "some"}, {"context": "some"}, {"stacks": "cpp"}])
def test_unknown_options_raise(wrong):
    with pytest.raises(RuntimeError, match="expected one of"):
        memory._record_memory_history(**wrong)


def test_allocations_of_other_threads_and_kernels_are_recorded():
    a = torch.ones(1000, device="openreg", requires_grad=True)
    (a * a).sum().backward()
    a.detach().nonzero()
    torch.openreg.synchronize()
    assert actions().count("alloc") >= 4


def test_pytorch_viewer_reads_snapshot(tmp_path):
    keep = [bytes_of(size) for size in (700, 3 * MIB, 30 * MIB)]
    del keep[1]
    with pytest.raises(torch.OutOfMemoryError):
        bytes_of(1 << 50)
    memory._dump_snapshot(tmp_path / "snapshot.pickle")
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert f"segments: {len(snapshot['segments'])}" in viewer.segsum(snapshot)
    story = viewer.trace(snapshot)
    assert "raise OutOfMemoryError" in story
    assert "cudaMalloc" in story and "# free completed for d 3.0MiB" in story
    for plot in (viewer.trace_plot, viewer.segment_plot):
        page = plot(snapshot)
        assert "<html>" in page.lower() or "<script" in page
    flames = io.StringIO()
    for segment in snapshot["segments"]:
        viewer._write_blocks(flames, "device", segment["blocks"])
    assert "bytes_of" in flames.getvalue()


def test_entries_have_a_pool_id():
    pool = torch.openreg.MemPool()
    with torch.openreg.use_mem_pool(pool):
        a = bytes_of(5000)
    b = bytes_of(5000)
    entries = memory._snapshot()["device_traces"][0]
    pools = {one["addr"]: one["pool_id"] for one in entries if one["action"] == "alloc"}
    assert pools[a.data_ptr()] == pool.id and pools[b.data_ptr()] == (0, 0)


def test_snapshot_of_a_pool_has_its_segments_only():
    pool = torch.openreg.MemPool()
    assert pool.snapshot() == []
    with torch.openreg.use_mem_pool(pool):
        a = bytes_of(5000)
    b = bytes_of(5000)
    (segment,) = pool.snapshot(include_traces=False)
    addresses = [block["address"] for block in segment["blocks"]]
    assert segment["segment_pool_id"] == pool.id
    assert a.data_ptr() in addresses and b.data_ptr() not in addresses


@pytest.mark.host_engine  # the CPU fallback synchronizes
def test_block_freed_during_capture_is_pending():
    stream, side, graph = torch.openreg.Stream(), torch.openreg.Stream(), torch.openreg.OpenRegGraph()
    a = bytes_of(5000)
    address = a.data_ptr()
    a.record_stream(side)
    with torch.openreg.stream(stream):
        graph.capture_begin()
        del a
        assert block_at(address)["state"] == "active_pending_free"
        torch.ones(2, device="openreg")
        graph.capture_end()
    torch.openreg.empty_cache()
    assert "free_completed" in actions(addr=address)
