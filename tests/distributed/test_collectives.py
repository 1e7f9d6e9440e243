"""Collectives and point-to-point operations of the backend occl, with 2 and 4 ranks."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from torch_openreg._torch_versions import WORK_HAS_EXCEPTION

DEVICE = "openreg"
OPS = {
    "SUM": dist.ReduceOp.SUM,
    "PRODUCT": dist.ReduceOp.PRODUCT,
    "MIN": dist.ReduceOp.MIN,
    "MAX": dist.ReduceOp.MAX,
    "AVG": dist.ReduceOp.AVG,
}
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.complex64,
    torch.float8_e4m3fn,
)
SIZES = (1, 7, 5000, 100_003)  # inline in a message, in one message each, and by Gloo's algorithm


@pytest.fixture(params=["two", "four"])
def ranks(request):
    return request.getfixturevalue(request.param)


def values(rank, size, dtype=torch.float32):
    """Small numbers that differ between ranks; sums and products are exact."""
    numbers = (torch.arange(size) + rank) % 3
    return numbers.to(torch.float32).to(dtype) if dtype.is_floating_point else numbers.to(dtype)


def on_device(tensor):
    return tensor.to(f"{DEVICE}:{torch.openreg.current_device()}")


def expected_reduction(world, size, dtype, op):
    all_values = [values(rank, size, dtype) for rank in range(world)]
    wide = torch.float64 if dtype.is_floating_point else dtype
    stacked = torch.stack([one.to(wide) for one in all_values])
    if dtype == torch.bool:
        result = stacked.all(0) if op in ("PRODUCT", "MIN") else stacked.any(0)
    elif op == "SUM":
        result = stacked.sum(0)
    elif op == "PRODUCT":
        result = stacked.prod(0)
    elif op == "AVG":
        total = stacked.sum(0)
        result = (
            total / world
            if dtype.is_floating_point or dtype.is_complex
            else total.div(world, rounding_mode="trunc")
        )
    else:
        result = stacked.amin(0) if op == "MIN" else stacked.amax(0)
    return result.to(dtype)


def all_reduce(rank, world, dtype, op, sizes):
    for size in sizes:
        tensor = on_device(values(rank, size, dtype))
        dist.all_reduce(tensor, OPS[op])
        expected = expected_reduction(world, size, dtype, op)
        actual = tensor.cpu()
        if dtype.is_floating_point:
            tolerance = 0 if op != "AVG" else 1e-2
            torch.testing.assert_close(actual.float(), expected.float(), rtol=tolerance, atol=0)
        else:
            assert torch.equal(actual, expected), (size, actual, expected)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_all_reduce(two, dtype, op):
    if (dtype == torch.bool and op == "AVG") or (dtype.is_complex and op in ("PRODUCT", "MIN", "MAX")):
        pytest.skip("not defined")
    two.run(all_reduce, dtype, op, SIZES)


@pytest.mark.parametrize("op", OPS)
def test_all_reduce_of_four_ranks(four, op):
    four.run(all_reduce, torch.float32, op, SIZES)


def bitwise_reduction(rank, world):
    for op, expected in (
        (dist.ReduceOp.BAND, 0),
        (dist.ReduceOp.BOR, 2**world - 1),
        (dist.ReduceOp.BXOR, 2**world - 1),
    ):
        for size in (3, 50_000):
            tensor = on_device(torch.full((size,), 1 << rank, dtype=torch.int32))
            dist.all_reduce(tensor, op)
            assert tensor.unique().cpu().tolist() == [expected], op
    with pytest.raises(TypeError, match="not defined for"):
        dist.all_reduce(on_device(torch.ones(2)), dist.ReduceOp.BAND)


def test_bitwise_reductions(ranks):
    ranks.run(bitwise_reduction)


def premultiplied_sum(rank, world):
    for size in (3, 50_000):
        tensor = on_device(torch.full((size,), float(rank + 1)))
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
        assert tensor.unique().cpu().tolist() == [world * (world + 1) / 4]
        source = on_device(torch.full((size * world,), float(rank + 1)))
        target = on_device(torch.zeros(size))
        dist.reduce_scatter_tensor(target, source, dist._make_nccl_premul_sum(0.5))
        assert target.unique().cpu().tolist() == [world * (world + 1) / 4]
        assert source.unique().cpu().tolist() == [rank + 1], "the input is unchanged"


def test_premultiplied_sum(ranks):
    ranks.run(premultiplied_sum)


def strided_tensors(rank, world):
    for shape in ((4, 6), (200, 300)):
        base = on_device(torch.zeros(shape[1], shape[0]))
        tensor = base.t()
        tensor.fill_(rank + 1)
        dist.all_reduce(tensor)
        assert base.unique().cpu().tolist() == [world * (world + 1) / 2]
        column = on_device(torch.zeros(shape))[:, 1]
        dist.broadcast(column if rank else column.fill_(5), 0)
        assert column.unique().cpu().tolist() == [5]
        outputs = [on_device(torch.zeros(shape[1], shape[0])).t() for _ in range(world)]
        dist.all_gather(outputs, tensor.fill_(rank))
        assert [output.unique().cpu().tolist() for output in outputs] == [[peer] for peer in range(world)]


def test_strided_tensors(ranks):
    ranks.run(strided_tensors)


def moves(rank, world, dtype, size):
    def of(number):
        return on_device(values(number, size, dtype))

    def is_of(tensor, number):
        assert torch.equal(tensor.cpu().view(torch.uint8), values(number, size, dtype).view(torch.uint8)), (
            tensor
        )

    tensor = of(rank)
    dist.broadcast(tensor, world - 1)
    is_of(tensor, world - 1)

    outputs = [of(9) for _ in range(world)]
    dist.all_gather(outputs, of(rank))
    for peer, output in enumerate(outputs):
        is_of(output, peer)

    whole = on_device(torch.zeros(world * size, dtype=dtype))
    dist.all_gather_into_tensor(whole, of(rank))
    for peer, part in enumerate(whole.chunk(world)):
        is_of(part, peer)

    outputs = [of(9) for _ in range(world)] if rank == 1 else None
    dist.gather(of(rank), outputs, dst=1)
    for peer, output in enumerate(outputs or []):
        is_of(output, peer)

    output = of(9)
    dist.scatter(output, [of(peer + 1) for peer in range(world)] if rank == 0 else None, src=0)
    is_of(output, rank + 1)

    outputs = [of(9) for _ in range(world)]
    dist.all_to_all(outputs, [of(rank + peer) for peer in range(world)])
    for peer, output in enumerate(outputs):
        is_of(output, rank + peer)

    whole = on_device(torch.zeros(world * size, dtype=dtype))
    dist.all_to_all_single(whole, torch.cat([of(rank + peer) for peer in range(world)]))
    for peer, part in enumerate(whole.chunk(world)):
        is_of(part, rank + peer)

    if rank == 0:
        dist.send(of(3), 1, tag=4)
    if rank == 1:
        tensor = of(9)
        assert dist.recv(tensor, 0, tag=4) == 0
        is_of(tensor, 3)


@pytest.mark.parametrize("size", [1, 30_000])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_moves(two, dtype, size):
    two.run(moves, dtype, size)


def test_moves_of_four_ranks(four):
    four.run(moves, torch.float32, 30_000)


def uneven(rank, world):
    sizes = [3000 * (peer + 1) for peer in range(world)]
    outputs = [on_device(torch.zeros(size)) for size in sizes]
    dist.all_gather(outputs, on_device(torch.full((sizes[rank],), float(rank))))
    assert [output.unique().cpu().tolist() for output in outputs] == [[peer] for peer in range(world)]
    target = on_device(torch.zeros(sum(peer + rank + 1 for peer in range(world)), 2))
    source = on_device(torch.full((sum(rank + peer + 1 for peer in range(world)), 2), float(rank)))
    splits = [rank + peer + 1 for peer in range(world)]
    dist.all_to_all_single(target, source, splits, splits)
    assert [part.unique().cpu().tolist() for part in target.split(splits)] == [
        [peer] for peer in range(world)
    ]
    inputs = [on_device(torch.full((peer + 1,), float(rank))) for peer in range(world)]
    output = on_device(torch.zeros(rank + 1))
    dist.reduce_scatter(output, inputs)
    assert output.unique().cpu().tolist() == [sum(range(world))]


def test_uneven_sizes(ranks):
    ranks.run(uneven)


def reductions_to_one(rank, world):
    for size in (3, 60_000):
        tensor = on_device(torch.full((size,), float(rank + 1)))
        dist.reduce(tensor, 1)
        assert tensor.unique().cpu().tolist() == [world * (world + 1) / 2 if rank == 1 else rank + 1]
        output = on_device(torch.zeros(size))
        dist.reduce_scatter_tensor(
            output, on_device(torch.full((size * world,), float(rank + 1))), dist.ReduceOp.AVG
        )
        assert output.unique().cpu().tolist() == [(world + 1) / 2]


def test_reductions_to_one_rank_and_to_parts(ranks):
    ranks.run(reductions_to_one)


def objects(rank, world):
    gathered = [None] * world
    dist.all_gather_object(gathered, {"rank": rank})
    assert gathered == [{"rank": peer} for peer in range(world)]
    shared = [f"from {rank}", rank]
    dist.broadcast_object_list(shared, src=1)
    assert shared == ["from 1", 1]
    output = [None]
    dist.scatter_object_list(output, [peer * 10 for peer in range(world)] if rank == 0 else None, src=0)
    assert output == [rank * 10]


def test_objects(ranks):
    ranks.run(objects)


def any_source(rank, world):
    if rank == 0:
        seen = set()
        for _ in range(1, world):
            tensor = on_device(torch.zeros(2000))
            source = dist.recv(tensor)
            assert tensor.unique().cpu().tolist() == [source]
            seen.add(source)
        assert seen == set(range(1, world))
    else:
        dist.send(on_device(torch.full((2000,), float(rank))), 0)


def test_receive_from_any_rank(ranks):
    ranks.run(any_source)


def batched(rank, world):
    peers = ((rank + 1) % world, (rank - 1) % world)
    for size in (4, 500_000):
        received = on_device(torch.zeros(size))
        operations = [
            dist.P2POp(dist.isend, on_device(torch.full((size,), float(rank))), peers[0]),
            dist.P2POp(dist.irecv, received, peers[1]),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert received.unique().cpu().tolist() == [peers[1]]


def test_batched_sends_and_receives(ranks):
    ranks.run(batched)


def to_itself(rank, world):
    for size in (4, 500_000):
        received = on_device(torch.zeros(size))
        sent = on_device(torch.full((2 * size,), float(rank + 1)))[::2]
        for work in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, sent, rank), dist.P2POp(dist.irecv, received, rank)]
        ):
            work.wait()
        assert received.unique().cpu().tolist() == [rank + 1]
    # Messages with a tag are received in the order of their sends.
    for value, tag in ((1.0, 0), (2.0, 7), (3.0, 0)):
        dist.isend(on_device(torch.full((3,), value)), rank, tag=tag)
    for value, tag in ((2.0, 7), (1.0, 0), (3.0, 0)):
        received = on_device(torch.zeros(3))
        dist.irecv(received, rank, tag=tag).wait()
        assert received.cpu().tolist() == [value] * 3


def test_a_rank_sends_to_itself(ranks):
    ranks.run(to_itself)


def coalesced(rank, world):
    device = torch.device(DEVICE, torch.openreg.current_device())
    tensors = [on_device(torch.full((size,), float(rank + 1))) for size in (3, 40_000)]
    with dist._coalescing_manager(device=device):
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert [tensor.unique().cpu().tolist() for tensor in tensors] == [[world * (world + 1) / 2]] * 2
    outputs = [on_device(torch.zeros(world * size)) for size in (3, 40_000)]
    inputs = [on_device(torch.full((size,), float(rank))) for size in (3, 40_000)]
    with dist._coalescing_manager(device=device, async_ops=True) as manager:
        for output, one in zip(outputs, inputs, strict=True):
            dist.all_gather_into_tensor(output, one)
    manager.wait()
    for output in outputs:
        assert [part.unique().cpu().tolist() for part in output.chunk(world)] == [
            [peer] for peer in range(world)
        ]


def test_coalesced(ranks):
    ranks.run(coalesced)


def functional_collectives(rank, world):
    group = dist.group.WORLD
    tensor = on_device(torch.full((4, 2), float(rank + 1)))
    total = world * (world + 1) / 2
    assert functional.all_reduce(tensor, "sum", group).unique().cpu().tolist() == [total]
    gathered = functional.all_gather_tensor(tensor, 0, group)
    assert gathered.shape == (4 * world, 2)
    part = functional.reduce_scatter_tensor(gathered, "sum", 0, group)
    assert part.unique().cpu().tolist() == [world * (rank + 1)]
    swapped = functional.all_to_all_single(on_device(torch.full((world,), float(rank))), None, None, group)
    assert swapped.cpu().tolist() == list(range(world))
    both = functional.all_reduce_coalesced([tensor, tensor * 2], "avg", group)
    assert [one.unique().cpu().tolist() for one in both] == [[total / world], [2 * total / world]]


def test_functional_collectives(ranks):
    ranks.run(functional_collectives)


def subgroups(rank, world):
    groups = [dist.new_group([0, 1]), dist.new_group(list(range(world)))]
    for number, group in enumerate(groups):
        tensor = on_device(torch.ones(5))
        if number == 1 or rank < 2:
            dist.all_reduce(tensor, group=group)
            assert tensor.cpu().tolist() == [float(dist.get_world_size(group))] * 5
    dist.barrier()
    for group in groups:
        if rank < 2 or group is groups[1]:
            dist.destroy_process_group(group)


def test_groups_of_some_ranks(ranks):
    ranks.run(subgroups)


def asynchronous(rank, world):
    """The call and wait() return although the other rank comes later; the stream waits."""
    import time

    if rank == 1:
        time.sleep(0.5)
    tensor = on_device(torch.ones(100_000))
    start = time.perf_counter()
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    result = tensor * 2
    called = time.perf_counter() - start
    if rank == 0 and torch.openreg.get_schedule().name != "blocking":
        assert called < 0.3 and not work.is_completed()
    assert result.unique().cpu().tolist() == [2 * world]
    assert work.is_completed() and work.is_success()
    if WORK_HAS_EXCEPTION:
        assert work.exception() is None
    assert work.get_future().wait()[0] is not None


def test_calls_do_not_wait_for_other_ranks(two):
    two.run(asynchronous)


def stream_order(rank, world):
    side = torch.openreg.Stream()
    tensor = on_device(torch.zeros(1000))
    for step in range(20):
        torch.openreg._sleep(200_000)
        tensor.fill_(rank + step)  # behind the sleep
        work = dist.all_reduce(tensor, async_op=True)
        with torch.openreg.stream(side):
            work.wait()
            copied = tensor * 1
        torch.openreg.current_stream().wait_stream(side)
        assert copied.unique().cpu().tolist() == [sum(range(world)) + world * step]


def test_stream_order(ranks):
    ranks.run(stream_order)


def freed_at_once(rank, world):
    """Tensors may be dropped, and their memory reused, right after the call."""
    for step in range(30):
        source = on_device(torch.full((50_000,), float(rank + step)))
        output = on_device(torch.zeros(world * 50_000))
        work = dist.all_gather_into_tensor(output, source, async_op=True)
        del source
        noise = [on_device(torch.full((50_000,), -1.0)) for _ in range(4)]
        work.wait()
        assert [part.unique().cpu().tolist() for part in output.chunk(world)] == [
            [peer + step] for peer in range(world)
        ]
        del noise


def test_memory_is_kept_until_the_end(ranks):
    ranks.run(freed_at_once)


def two_devices(rank, world):
    """One group, tensors of two devices in turn: the order of the calls counts."""
    for step in range(10):
        for index in (0, 1):
            tensor = torch.full((20_000,), float(step + index), device=f"{DEVICE}:{index}")
            dist.all_reduce(tensor)
            assert tensor.unique().cpu().tolist() == [world * (step + index)]


def test_tensors_of_two_devices(ranks):
    ranks.run(two_devices)


def barrier(rank, world):
    import time

    if rank == 1:
        time.sleep(0.3)
    start = time.perf_counter()
    dist.barrier(device_ids=[rank])
    return time.perf_counter() - start


def test_barrier_blocks_the_host(two):
    assert two.run(barrier)[0] > 0.2


def captured(rank, world):
    graph = torch.openreg.OpenRegGraph()
    tensor = on_device(torch.ones(3))
    with pytest.raises(RuntimeError, match="collective all_reduce"), torch.openreg.graph(graph):
        dist.all_reduce(tensor)
    torch.openreg.synchronize()
    dist.all_reduce(tensor)
    assert tensor.cpu().tolist() == [float(world)] * 3


def test_captures_are_refused(two):
    two.run(captured)


def wrong_arguments(rank, world):
    with pytest.raises(ValueError, match="two devices"):
        dist.all_gather(
            [torch.zeros(2, device=f"{DEVICE}:0"), torch.zeros(2, device=f"{DEVICE}:1")],
            torch.zeros(2, device=f"{DEVICE}:0"),
        )
    with pytest.raises(ValueError, match="world_size times input"):
        dist.all_gather_into_tensor(on_device(torch.zeros(3)), on_device(torch.zeros(2)))
    with pytest.raises(ValueError, match="divided between"):
        dist.all_to_all_single(on_device(torch.zeros(world + 1)), on_device(torch.zeros(world + 1)))
    with pytest.raises(NotImplementedError, match=r"c10d::allreduce_.*Sparse"):
        dist.all_reduce(on_device(torch.eye(2).to_sparse()))
    tensor = on_device(torch.ones(2))
    dist.all_reduce(tensor)  # no rank is out of order
    assert tensor.cpu().tolist() == [float(world)] * 2


def test_wrong_arguments_raise_at_the_call(two):
    two.run(wrong_arguments)


def records(rank, world):
    import torch_openreg.distributed

    dist.all_reduce(on_device(torch.ones(3, 2)))
    torch.openreg.synchronize()
    last = torch_openreg.distributed.flight_records()[-1]
    assert last["operation"] == "all_reduce" and last["state"] == "completed" and last["rank"] == rank
    assert last["tensors"] == "Float[3, 2]" and "test_collectives.py" in last["line"]
    assert last["time_created"] <= last["time_started"] <= last["time_completed"]


def test_flight_recorder(two):
    two.run(records)


def large_parts(rank, world):
    """Parts that are reduced in pieces, of which the last is shorter."""
    for size in (524_288, 524_289, 600_000, 1_048_577):
        output = on_device(torch.zeros(size))
        dist.reduce_scatter_tensor(output, on_device(torch.full((size * world,), float(rank + 1))))
        assert output.unique().cpu().tolist() == [world * (world + 1) / 2], size
        tensor = on_device(torch.full((size,), float(rank + 1)))
        dist.all_reduce(tensor)
        assert tensor.unique().cpu().tolist() == [world * (world + 1) / 2], size


def test_large_parts(ranks):
    ranks.run(large_parts)


def in_place(rank, world):
    for size in (4, 600_000):
        for op, combine in ((dist.ReduceOp.SUM, torch.sum), (dist.ReduceOp.MAX, torch.amax)):
            whole = [torch.arange(float(size * world)) * (-1) ** peer + peer for peer in range(world)]
            tensor = on_device(whole[rank])
            part = slice(rank * size, (rank + 1) * size)
            dist.reduce_scatter_tensor(tensor[part], tensor, op)
            expected = combine(torch.stack(whole), 0)[part]
            torch.testing.assert_close(tensor[part].cpu(), expected, rtol=0, atol=0)
        tensor = on_device(torch.full((size * world,), float(rank)))
        dist.all_gather_into_tensor(tensor, tensor[part])
        assert [one.unique().cpu().tolist() for one in tensor.chunk(world)] == [
            [peer] for peer in range(world)
        ]
        tensor = on_device(torch.full((size * world,), float(rank)))
        dist.all_to_all_single(tensor, tensor)
        assert [one.unique().cpu().tolist() for one in tensor.chunk(world)] == [
            [peer] for peer in range(world)
        ]


def test_outputs_inside_of_inputs(ranks):
    ranks.run(in_place)


def messages_of_two_devices(rank, world):
    """Operations with one peer keep the order of the calls, whatever their devices."""
    for _ in range(20):
        sizes = (1000, 5000)
        if rank == 1:
            tensors = [torch.full((sizes[i],), float(i), device=f"{DEVICE}:{i}") for i in range(2)]
            works = [dist.isend(tensor, 0) for tensor in tensors]
        else:
            tensors = [torch.zeros(sizes[i], device=f"{DEVICE}:{i}") for i in range(2)]
            works = [dist.irecv(tensor, 1) for tensor in tensors]
        for i, work in enumerate(works):
            with torch.openreg.device(i):
                work.wait()
        assert [tensor.unique().cpu().tolist() for tensor in tensors] == [[0], [1]]


def test_messages_of_two_devices(two):
    two.run(messages_of_two_devices)


def future_of_a_batch(rank, world):
    import time

    received, sent = on_device(torch.zeros(10)), on_device(torch.ones(10))
    if rank == 1:
        time.sleep(0.3)
    operations = [dist.P2POp(dist.irecv, received, 1 - rank), dist.P2POp(dist.isend, sent, 1 - rank)]
    works = dist.batch_isend_irecv(operations if rank == 0 else operations[::-1])
    for work in works:
        work.get_future().wait()
    assert received.sum().item() == 10


def test_the_future_of_a_batch(two):
    two.run(future_of_a_batch)


def more_wrong_arguments(rank, world):
    with pytest.raises(ValueError, match="same memory"):
        dist.all_reduce(on_device(torch.ones(1)).expand(4))
    with pytest.raises(TypeError, match="not defined for"):
        dist.all_reduce(on_device(torch.ones(4, dtype=torch.uint16)), dist.ReduceOp.AVG)
    with pytest.raises(TypeError, match="not defined for"):
        dist.all_reduce(on_device(torch.ones(4, dtype=torch.int64)), dist._make_nccl_premul_sum(2.0))
    with pytest.raises(ValueError, match="tag"):
        dist.isend(on_device(torch.ones(4)), 1 - rank, tag=-1)
    with pytest.raises(ValueError, match="outputs for"):
        dist.all_gather([on_device(torch.ones(4)) for _ in range(world + 1)], on_device(torch.ones(4)))
    tensor = on_device(torch.ones(2))
    dist.all_reduce(tensor)
    assert tensor.cpu().tolist() == [float(world)] * 2


def test_more_wrong_arguments(two):
    two.run(more_wrong_arguments)
