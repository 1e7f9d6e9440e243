"""Ranks on one machine exchange messages through shared memory, and read data that does not fit into them from the
memory of each other; without it, everything is over Gloo."""

import os

import pytest
import torch
import torch.distributed as dist
from test_collectives import DEVICE, expected_reduction, on_device, values

SIZE = 1_000_003  # elements; not divisible by the number of ranks
NUMBER = 4  # bytes of an element
LEAST = 564  # bytes that are read, and not part of a message


@pytest.fixture(params=["two", "four"])
def ranks(request):
    return request.getfixturevalue(request.param)


def bytes_read(group):
    return group._get_backend(torch.device(DEVICE))._bytes_read_from_peers


def messages(group):
    return group._get_backend(torch.device(DEVICE))._messages_from_mailbox


def full(number):
    return on_device(torch.full((SIZE,), float(number)))


def part_of(rank, world, size):
    """Elements of a rank's part of an all_reduce."""
    return size * (rank + 1) // world - size * rank // world


def read_if_large(counts):
    return sum(count * NUMBER for count in counts if count * NUMBER >= LEAST)


def large_all_reduce(group, rank, world):
    """A rank reads its part of all ranks, and then the reduced parts of the others."""
    tensor = on_device(values(rank, SIZE))
    dist.all_reduce(tensor, group=group)
    assert torch.equal(tensor.cpu(), expected_reduction(world, SIZE, torch.float32, "SUM"))
    parts = [part_of(other, world, SIZE) for other in range(world)]
    return NUMBER * (parts[rank] * (world - 1) + SIZE - parts[rank])


def small_all_reduce(group, rank, world):
    """Every rank gets the values of all ranks: once in the messages, and once with an element too many."""
    for size in (LEAST // NUMBER - 1, LEAST // NUMBER):
        tensor = on_device(values(rank, size))
        dist.all_reduce(tensor, group=group)
        assert torch.equal(tensor.cpu(), expected_reduction(world, size, torch.float32, "SUM"))
    return (world - 1) * LEAST


def broadcast(group, rank, world):
    tensor = on_device(values(rank, SIZE))
    dist.broadcast(tensor, world - 1, group=group)
    assert torch.equal(tensor.cpu(), values(world - 1, SIZE))
    return SIZE * NUMBER if rank != world - 1 else 0


def reduce(group, rank, world):
    tensor = on_device(values(rank, SIZE))
    dist.reduce(tensor, 0, group=group)
    if rank == 0:
        assert torch.equal(tensor.cpu(), expected_reduction(world, SIZE, torch.float32, "SUM"))
    return (world - 1) * SIZE * NUMBER if rank == 0 else 0


def all_gather(group, rank, world):
    gathered = [on_device(torch.zeros(SIZE)) for _ in range(world)]
    dist.all_gather(gathered, on_device(values(rank, SIZE)), group=group)
    for other, actual in enumerate(gathered):
        assert torch.equal(actual.cpu(), values(other, SIZE))
    return (world - 1) * SIZE * NUMBER


def reduce_scatter(group, rank, world):
    whole = on_device(torch.cat([values(rank + part, SIZE) for part in range(world)]))
    part = on_device(torch.zeros(SIZE))
    dist.reduce_scatter_tensor(part, whole, group=group)
    assert torch.equal(part.cpu(), sum(values(other + rank, SIZE) for other in range(world)))
    return (world - 1) * SIZE * NUMBER


def all_to_all(group, rank, world):
    """Between some ranks little data, which is sent, and between others more."""
    sizes = [
        [1 + (5_000 << (sender + 2 * receiver) % 4) for receiver in range(world)] for sender in range(world)
    ]
    mine = [sizes[sender][rank] for sender in range(world)]
    out = on_device(torch.zeros(sum(mine)))
    source = on_device(torch.full((sum(sizes[rank]),), float(rank)))
    dist.all_to_all_single(out, source, mine, sizes[rank], group=group)
    expected = torch.repeat_interleave(torch.arange(world), torch.tensor(mine)).float()
    assert torch.equal(out.cpu(), expected)
    return read_if_large(count for sender, count in enumerate(mine) if sender != rank)


COLLECTIVES = (
    large_all_reduce,
    small_all_reduce,
    broadcast,
    reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
)


def with_peer_memory(rank, world, collective):
    group = dist.group.WORLD
    dist.all_reduce(on_device(torch.ones(1)))  # its messages have the addresses
    torch.openreg.synchronize()
    before = bytes_read(group)
    expected = collective(group, rank, world)
    torch.openreg.synchronize()
    return bytes_read(group) - before, expected


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_large_data_is_read(ranks, collective):
    for read, expected in ranks.run(with_peer_memory, collective):
        assert read == expected


def new_group(rank, disabled):
    """A group in which these ranks share no memory."""
    if rank in disabled:
        os.environ["OPENREG_P2P_DISABLE"] = "1"
    try:
        return dist.new_group(backend="openreg:occl")
    finally:
        os.environ.pop("OPENREG_P2P_DISABLE", None)


def without_peer_memory(rank, world, disabled):
    group = new_group(rank, disabled)
    for collective in COLLECTIVES:
        collective(group, rank, world)
    torch.openreg.synchronize()
    read = bytes_read(group)
    dist.destroy_process_group(group)
    return read


@pytest.mark.parametrize("disabled", [(0,), (0, 1, 2, 3)], ids=["one", "all"])
def test_the_rest_is_over_gloo(ranks, disabled):
    for rank, count in enumerate(ranks.run(without_peer_memory, disabled)):
        others = [other for other in range(ranks.size) if other != rank and other not in disabled]
        assert (count > 0) == (rank not in disabled and bool(others)), (rank, count)


def overwritten_at_once(rank, world):
    """A rank that only sends overwrites its tensor right after the call; the others still have the old values."""
    dist.all_reduce(on_device(torch.ones(1)))
    for step in range(10):
        tensor = full(step)
        dist.broadcast(tensor, 0)
        if rank == 0:
            tensor.fill_(-1)
        else:
            assert tensor.unique().tolist() == [step]
        tensor = full(step)
        dist.reduce(tensor, 0)
        if rank == 0:
            assert tensor.unique().tolist() == [step * world]
        else:
            tensor.fill_(-1)


def test_memory_is_kept_until_it_was_read(ranks):
    ranks.run(overwritten_at_once)


def many_at_once(rank, world):
    """Groups with operations in flight at the same time, of tensors that the program drops."""
    groups = [dist.new_group(backend="openreg:occl") for _ in range(3)]
    tensors = [full(rank + number) for number in range(12)]
    works = [
        dist.all_reduce(tensor, group=groups[number % 3], async_op=True)
        for number, tensor in enumerate(tensors)
    ]
    kept = tensors[::2]
    del tensors
    for work in works:
        work.wait()
    for number, tensor in enumerate(kept):
        assert tensor.unique().tolist() == [sum(other + 2 * number for other in range(world))]
    read = min(bytes_read(group) for group in groups)
    for group in groups:
        dist.destroy_process_group(group)
    return read


def test_groups_read_at_the_same_time(ranks):
    assert min(ranks.run(many_at_once)) > SIZE * NUMBER


def small_collectives(rank, world, disabled):
    group = new_group(rank, disabled)
    counts = []
    for step in range(50):
        tensor = on_device(values(rank + step, 100))
        dist.all_reduce(tensor, group=group)
        assert torch.equal(tensor.cpu(), sum(values(other + step, 100) for other in range(world)))
        counts.append(messages(group))
    dist.destroy_process_group(group)
    return counts


@pytest.mark.parametrize("disabled", [(), (0,), (0, 1, 2, 3)], ids=["none", "one", "all"])
def test_messages_are_in_shared_memory(ranks, disabled):
    """From the third collective on: the first message has the address, and the second one announces the change."""
    for rank, counts in enumerate(ranks.run(small_collectives, disabled)):
        others = [other for other in range(ranks.size) if other != rank and other not in disabled]
        each = 0 if rank in disabled else len(others)
        assert counts == [0, 0] + [each * step for step in range(1, 49)]


def wrong_setting(rank, world):
    os.environ["OPENREG_P2P_DISABLE"] = "yes"
    try:
        with pytest.raises(ValueError, match="OPENREG_P2P_DISABLE is 'yes': expected 0 or 1"):
            dist.new_group(backend="openreg:occl")
    finally:
        os.environ.pop("OPENREG_P2P_DISABLE", None)


def test_a_wrong_setting_is_an_error(two):
    two.run(wrong_setting)
