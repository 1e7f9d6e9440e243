"""The memory of graphs, and private pools. Every test runs in all three schedules."""

import threading

import pytest
import torch
from captures import DEVICE, capture, side_streams

openreg = torch.openreg
pytestmark = pytest.mark.usefixtures("each_schedule")


def test_the_memory_of_a_graph_is_private():
    x = torch.ones(1000, device=DEVICE)

    def work():
        hidden = x * 2
        address = hidden.data_ptr()
        y = hidden + 1
        del hidden
        reused = (x - 1).data_ptr() == address  # within the capture, in stream order
        return y, address, reused

    stream = openreg.Stream()
    graph, (y, address, reused) = capture(work, stream=stream)
    assert reused
    with openreg.stream(stream):
        others = [torch.zeros(1000, device=DEVICE) for _ in range(50)]
    assert address not in [other.data_ptr() for other in others]
    openreg.current_stream().wait_stream(stream)
    graph.replay()
    assert all(other.count_nonzero() == 0 for other in others)
    assert y[0].item() == 3


def test_memory_is_freed_with_the_graph(clean_memory):
    before = torch.accelerator.memory_reserved()
    tensors = [torch.ones(4 << 20, device=DEVICE)]
    graph, result = capture(lambda: (tensors[0] + 1) * 2)
    tensors.append(result)
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved() - before >= 3 * result.nbytes
    graph.reset()
    tensors.clear()
    del result
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved() == before


def test_graphs_share_a_pool():
    x = torch.ones(1 << 20, device=DEVICE)
    pool = openreg.graph_pool_handle()
    assert pool[0] == 0 and pool != openreg.graph_pool_handle()
    first, a = capture(lambda: x + 1, pool=pool)
    assert first.pool() == pool
    address = a.data_ptr()
    del a
    second, b = capture(lambda: x + 2, pool=first.pool())
    assert b.data_ptr() == address
    third, c = capture(lambda: x + 3)
    assert third.pool() != pool and c.data_ptr() != address
    second.replay()
    assert b[0].item() == 3
    del first, second, b
    again, d = capture(lambda: x + 4, pool=pool)
    again.replay()
    assert d[0].item() == 5


def test_record_stream_in_a_capture():
    (side,) = side_streams(1)
    x = torch.ones(1000, device=DEVICE)

    def work():
        a = x + 1
        side.wait_stream(openreg.current_stream())
        with openreg.stream(side):
            b = a * 2
        a.record_stream(side)
        address = a.data_ptr()
        del a
        assert (x + 5).data_ptr() != address
        openreg.current_stream().wait_stream(side)
        return b

    graph, b = capture(work)
    graph.replay()
    assert b[0].item() == 4


def test_mem_pool_without_a_graph():
    pool = openreg.MemPool()
    assert pool.use_count() == 1
    with openreg.use_mem_pool(pool):
        a = torch.ones(1000, device=DEVICE)
        assert pool.use_count() == 2
        others = []
        thread = threading.Thread(target=lambda: others.append(torch.ones(1000, device=DEVICE)))
        thread.start()
        thread.join()
    address = a.data_ptr()
    del a
    assert torch.ones(1000, device=DEVICE).data_ptr() != address
    with openreg.use_mem_pool(pool):
        assert torch.ones(1000, device=DEVICE).data_ptr() == address
    graph, y = capture(lambda: others[0] + 1, pool=pool.id)
    graph.replay()
    assert y[0].item() == 2


def test_out_of_memory_does_not_end_a_capture():
    graph = openreg.OpenRegGraph()
    with openreg.graph(graph):
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 50, dtype=torch.uint8, device=DEVICE)
        y = torch.ones(3, device=DEVICE)
    graph.replay()
    assert y.sum().item() == 3


def test_two_captures_cannot_use_one_pool_at_once():
    pool, first, second = openreg.graph_pool_handle(), openreg.Stream(), openreg.Stream()
    graph, other = openreg.OpenRegGraph(), openreg.OpenRegGraph()
    with openreg.stream(first):
        graph.capture_begin(pool=pool)
    with openreg.stream(second), pytest.raises(RuntimeError, match="already recording"):
        other.capture_begin(pool=pool)
    with openreg.stream(first):
        torch.ones(3, device=DEVICE)
        graph.capture_end()
    second.synchronize()
    openreg.empty_cache()
    with openreg.stream(second):
        other.capture_begin(pool=pool)
        torch.ones(3, device=DEVICE)
        other.capture_end()


def test_use_mem_pool_is_thread_local():
    pool, inside, leave = openreg.MemPool(), threading.Event(), threading.Event()

    def other() -> None:
        with openreg.use_mem_pool(pool):
            inside.set()
            assert leave.wait(30)

    def pool_of(tensor) -> tuple[int, int]:
        segments = openreg.memory_snapshot()
        return next(
            tuple(one["segment_pool_id"])
            for one in segments
            if one["address"] <= tensor.data_ptr() < one["address"] + one["total_size"]
        )

    thread = threading.Thread(target=other)
    with openreg.use_mem_pool(pool):
        thread.start()
        assert inside.wait(30)
    outside = torch.ones(3, device=DEVICE)
    with openreg.use_mem_pool(pool):
        leave.set()
        thread.join()
        within = torch.ones(3, device=DEVICE)
    assert pool_of(outside) == (0, 0) and pool_of(within) == pool.id


@pytest.fixture
def reuse_in_captures():
    openreg.memory._set_allocator_settings("graph_capture_record_stream_reuse:True")
    yield
    openreg.memory._set_allocator_settings("")


def addresses_around_a_join():
    """The address of memory that a side stream uses, and of allocations before and after the stream is joined."""
    (side,) = side_streams(1)

    def work():
        data = torch.ones(1000, device=DEVICE)
        used = data.data_ptr()
        side.wait_stream(openreg.current_stream())
        with openreg.stream(side):
            result = data + 1
        data.record_stream(side)
        del data
        before = torch.zeros(1000, device=DEVICE)
        openreg.current_stream().wait_stream(side)
        after = torch.zeros(1000, device=DEVICE)
        return result, before, after, used

    graph, (result, before, after, used) = capture(work)
    graph.replay()
    assert result.sum().item() == 2000
    return used, before.data_ptr(), after.data_ptr()


def test_memory_of_joined_streams_is_reused_in_a_capture(reuse_in_captures):
    used, before, after = addresses_around_a_join()
    assert before != used and after == used


def test_by_default_memory_of_other_streams_is_not_reused_in_a_capture():
    used, before, after = addresses_around_a_join()
    assert used not in (before, after)


def test_memory_from_outside_of_a_capture_is_not_reused_in_it(reuse_in_captures):
    stream, side = side_streams(2)
    x = torch.zeros(1, device=DEVICE)
    openreg.synchronize()
    with openreg.stream(stream):
        data = torch.ones(1000, device=DEVICE)
    side.wait_stream(stream)
    with openreg.stream(side):
        openreg._sleep(30_000_000)
        result = data + 1
    data.record_stream(side)
    graph = openreg.OpenRegGraph()
    with openreg.stream(stream):
        graph.capture_begin()
        side.wait_stream(stream)
        with openreg.stream(side):
            x.add_(1)
        stream.wait_stream(side)
        del data
        graph.capture_end()
        torch.empty(1000, device=DEVICE).fill_(99)
    openreg.synchronize()
    assert result.sum().item() == 2000


def test_invalid_reuse_setting_is_an_error():
    with pytest.raises(ValueError, match="'yes': use True or False"):
        openreg.memory._set_allocator_settings("graph_capture_record_stream_reuse:yes")


def test_memory_of_another_stream_is_reused_at_the_next_allocation():
    side = openreg.Stream()
    data = torch.ones(1000, device=DEVICE)
    side.wait_stream(openreg.current_stream())
    with openreg.stream(side):
        result = data + 1
    data.record_stream(side)
    address = data.data_ptr()
    spare = torch.empty(1000, device=DEVICE)  # the cache has another block of this size
    del data, spare
    side.synchronize()
    assert torch.empty(1000, device=DEVICE).data_ptr() == address
    assert result.sum().item() == 2000


def test_out_of_memory_observers_are_called():
    from torch_openreg import _C

    seen = []
    _C.attach_out_of_memory_observer(lambda *args: seen.append(args))
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 50, dtype=torch.uint8, device=DEVICE)
    total = openreg.get_device_properties(0).total_memory
    assert seen[0][:3] == (0, 1 << 50, total) and 0 <= seen[0][3] <= total


def test_check_input_liveness():
    def scaled(x):  # memory that the capture frees belongs to the graph
        return x * 2 + 1

    graph, x, bias = openreg.OpenRegGraph(), torch.ones(2, 3, device=DEVICE), torch.ones(3, device=DEVICE)
    with openreg.graph(graph, check_input_liveness=True):
        y = scaled(x) + bias
    graph.replay()
    assert y.tolist() == [[4.0] * 3] * 2
    line = scaled.__code__.co_firstlineno + 1
    del bias
    with pytest.raises(
        RuntimeError, match=r"1 of the tensors .*\n  float32\[3\] on openreg:0, used by aten.add.Tensor at "
    ):
        graph.replay()
    x.untyped_storage().resize_(0)
    with pytest.raises(
        RuntimeError, match=rf"2 of the tensors .*\n  float32\[2, 3\] .* at {__file__}:{line} in scaled"
    ):
        graph.replay()
    assert torch.ones(3, device=DEVICE).sum().item() == 3
    graph.reset()
    with openreg.graph(graph):  # not checked
        z = y + 1
    graph.replay()
    assert z.sum().item() == 30


def test_check_input_liveness_of_backward_and_pinned_memory():
    weight = torch.ones(3, device=DEVICE, requires_grad=True)
    pinned = [torch.ones(3).pin_memory()]

    def step():
        (weight * pinned[0].to(DEVICE, non_blocking=True)).sum().backward()

    stream = openreg.Stream()
    stream.wait_stream(openreg.current_stream())
    with openreg.stream(stream):
        step()
    graph = openreg.OpenRegGraph()
    with openreg.graph(graph, stream=stream, check_input_liveness=True):
        step()
    graph.replay()
    assert weight.grad.tolist() == [2.0] * 3
    weight.grad = None
    with pytest.raises(RuntimeError, match="1 of the tensors"):
        graph.replay()
    pinned.clear()
    with pytest.raises(RuntimeError, match="2 of the tensors"):
        graph.replay()


def test_unknown_arguments_of_graph():
    with pytest.raises(TypeError, match="needs an OpenRegGraph"):
        openreg.graph(torch.accelerator.Graph(), check_input_liveness=True)
    with pytest.raises(NotImplementedError, match="annotations"):
        openreg.graph(openreg.OpenRegGraph(), enable_annotations=True)


def test_a_pool_that_is_used_on_oom():
    openreg.empty_cache()
    blocks = [block for segment in openreg.memory_snapshot() for block in segment["blocks"]]
    # Larger than what other tests have left free in segments that are in use.
    left = max((block["size"] for block in blocks if block["state"] == "inactive"), default=0)
    size = max(32 << 20, left // (2 << 20) * (2 << 20) + (4 << 20))
    limit = openreg.memory_reserved() + size + size // 2
    openreg.set_per_process_memory_fraction(limit / openreg.mem_get_info()[1])
    try:
        for use_on_oom in (False, True):
            pool = openreg.MemPool(use_on_oom=use_on_oom)
            with openreg.use_mem_pool(pool):
                kept = torch.full((size // 4,), 7.0, device=DEVICE)  # float32
            del kept  # the pool keeps its memory
            fits = torch.ones(size // 16, device=DEVICE)
            if use_on_oom:
                x = torch.full((size // 4,), 2.0, device=DEVICE)
                assert (x[-1] * fits[-1]).item() == 2
                del x
                assert openreg.memory_reserved() >= size
                states = {block["state"] for found in pool.snapshot() for block in found["blocks"]}
                assert states == {"inactive"}
            else:
                with pytest.raises(torch.OutOfMemoryError):
                    torch.full((size // 4,), 2.0, device=DEVICE)
            del pool, fits
            openreg.empty_cache()
    finally:
        openreg.set_per_process_memory_fraction(1.0)


def test_a_pool_whose_segments_are_not_split():
    for no_split in (False, True):
        pool = openreg.MemPool(no_split=no_split)
        with openreg.use_mem_pool(pool):
            for _ in range(3):
                tensors = []  # freed memory is used again
                tensors = [
                    torch.full((size,), float(size), device=DEVICE) for size in (1, 1, 3_000_000, 300_000)
                ]
        assert [tensor[-1].item() for tensor in tensors] == [1, 1, 3_000_000, 300_000]
        blocks = [len(found["blocks"]) for found in pool.snapshot()]
        assert (blocks == [1] * 4) == no_split, blocks
        del tensors, pool


def test_a_pool_has_no_allocator_of_its_own():
    with pytest.raises(NotImplementedError, match="allocator must be None"):
        openreg.MemPool(object())
