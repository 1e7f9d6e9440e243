"""Failures of a group: ranks that end, do not come, or call something else. Every other rank gets an error in time."""

import contextlib
import datetime
import os
import random
import re
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import RankError, Ranks

DEVICE = "openreg"
TIMEOUT = 5  # of the groups in these tests, in seconds


def ones(size):
    return torch.ones(size, device=DEVICE)


# Collectives before the failure: the first two are over Gloo, and the next ones through shared memory.
BEFORE = pytest.mark.parametrize("before", [0, 3], ids=["gloo", "shared_memory"])


def agree(before):
    """Calls this many collectives."""
    tensor = ones(1)
    for _ in range(before):
        dist.all_reduce(tensor)
    torch.openreg.synchronize()


NAMES = [
    *("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter"),
    *(
        "reduce_scatter",
        "reduce_scatter_tensor",
        "all_to_all",
        "all_to_all_single",
        "barrier",
        "send",
        "recv",
    ),
]


def start(name, world, size):
    """Calls a collective asynchronously."""
    parts = [ones(size) for _ in range(world)]
    calls = {
        "all_reduce": lambda: dist.all_reduce(ones(size), async_op=True),
        "broadcast": lambda: dist.broadcast(ones(size), 0, async_op=True),
        "reduce": lambda: dist.reduce(ones(size), 0, async_op=True),
        "all_gather": lambda: dist.all_gather(parts, ones(size), async_op=True),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(
            ones(size * world), ones(size), async_op=True
        ),
        "gather": lambda: dist.gather(ones(size), parts if dist.get_rank() == 0 else None, async_op=True),
        "scatter": lambda: dist.scatter(ones(size), parts if dist.get_rank() == 0 else None, async_op=True),
        "reduce_scatter": lambda: dist.reduce_scatter(ones(size), parts, async_op=True),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(
            ones(size), ones(size * world), async_op=True
        ),
        "all_to_all": lambda: dist.all_to_all([ones(size) for _ in range(world)], parts, async_op=True),
        "all_to_all_single": lambda: dist.all_to_all_single(
            ones(size * world), ones(size * world), async_op=True
        ),
        "barrier": lambda: dist.barrier(async_op=True, device_ids=[dist.get_rank()]),
        "send": lambda: dist.isend(ones(size), 1) if dist.get_rank() == 0 else dist.irecv(ones(size), 0),
        "recv": lambda: dist.irecv(ones(size), 1) if dist.get_rank() == 0 else dist.isend(ones(size), 0),
    }
    assert list(calls) == NAMES
    return calls[name]()


def call_with_a_dead_peer(rank, world, name, size, before):
    """Rank 1 ends; the others call. Returns the error and the time until it was raised."""
    tensor = ones(1)
    agree(before)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)
    begin = time.perf_counter()
    try:
        start(name, world, size).wait()
        torch.openreg.synchronize()
    except Exception as error:
        first = f"{type(error).__name__}: {error}", time.perf_counter() - begin
    else:
        first = "no error", 0
    # Later calls raise at once.
    try:
        dist.all_reduce(tensor)
    except dist.DistBackendError as error:
        return (*first, str(error))
    return (*first, "no error")


@pytest.mark.parametrize(
    ("name", "before"), [*((name, 3) for name in NAMES), ("all_reduce", 1), ("barrier", 1)]
)
def test_a_dead_rank(name, before):
    size = 200_000
    with Ranks(2, timeout=TIMEOUT) as ranks:
        ranks.start(call_with_a_dead_peer, name, size, before)
        ((error, seconds, later),) = ranks.results([0])
    assert re.search(rf"{name}.* #\d+ .*in the process group .* failed on rank 0: ", error) or (
        name in ("send", "recv") and " failed on rank 0: " in error
    ), error
    assert "rank 1" in error and "test_group_failures.py" in error, error
    assert seconds < TIMEOUT + 2
    assert "cannot be used any more" in later


def call_alone(rank, world, before):
    agree(before)
    if rank == 1:
        time.sleep(TIMEOUT + 3)
        return "", 0.0
    start = time.perf_counter()
    try:
        dist.all_reduce(ones(10))
        torch.openreg.synchronize()
    except RuntimeError as error:
        return str(error), time.perf_counter() - start
    return "no error", 0.0


@BEFORE
def test_a_rank_that_does_not_come(before):
    with Ranks(2, timeout=TIMEOUT) as ranks:
        error, seconds = ranks.run(call_alone, before)[0]
    assert "timed out" in error and "rank 1" in error and "all_reduce" in error, error
    assert TIMEOUT - 1 < seconds < TIMEOUT + 2


def mismatched(rank, world, case, before):
    agree(before)
    calls = {
        "sizes": lambda: dist.all_reduce(ones(100_000 if rank else 100)),
        "large sizes": lambda: dist.all_reduce(ones(100_000 if rank else 200_000)),
        "dtypes": lambda: dist.all_reduce(ones(10).to(torch.float64 if rank else torch.float32)),
        "operations": lambda: dist.all_reduce(ones(10)) if rank else dist.broadcast(ones(10), 0),
        "reductions": lambda: dist.all_reduce(ones(10), dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM),
        "roots": lambda: dist.broadcast(ones(10), rank),
        "messages": lambda: dist.send(ones(300), 0) if rank else dist.recv(ones(3000), 1),
    }
    try:
        calls[case]()
        torch.openreg.synchronize()
    except RuntimeError as error:
        return str(error)
    return "no error"


@BEFORE
@pytest.mark.parametrize(
    "case", ["sizes", "large sizes", "dtypes", "operations", "reductions", "roots", "messages"]
)
def test_ranks_that_do_not_match(case, before):
    with Ranks(2, timeout=TIMEOUT) as ranks:
        errors = ranks.run(mismatched, case, before)
    if case == "messages":  # the sender is done before the receiver sees the size
        errors = errors[:1]
        assert "12000 bytes" in errors[0] and "1200 bytes" in errors[0], errors
    else:
        assert all("the ranks do not match" in error for error in errors), errors
    assert all("test_group_failures.py" in error for error in errors), errors


def continue_with_a_new_group(rank, world):
    """The failure has poisoned three streams: that of the group, that of the call, and one that waited for it."""
    side = torch.openreg.Stream()
    dist.all_reduce(ones(100 if rank else 200), async_op=True).wait()
    side.wait_stream(torch.openreg.current_stream())
    with pytest.raises(RuntimeError, match="do not match"):
        torch.openreg.current_stream().synchronize()
    group = dist.new_group(timeout=datetime.timedelta(seconds=TIMEOUT))
    tensor = ones(100)
    dist.all_reduce(tensor, group=group)
    with torch.openreg.stream(side):
        other = ones(100)
        dist.all_reduce(other, group=group)
    torch.openreg.synchronize()
    return tensor.sum().item(), other.sum().item()


def test_a_reported_failure_does_not_return():
    with Ranks(2, timeout=TIMEOUT) as ranks:
        assert ranks.run(continue_with_a_new_group) == [(200.0, 200.0)] * 2


def abort(rank, world, before):
    agree(before)
    if rank == 1:
        time.sleep(2)
        return "", 0.0
    tensor = ones(10)
    work = dist.all_reduce(tensor, async_op=True)
    time.sleep(0.2)
    start = time.perf_counter()
    dist.distributed_c10d._abort_process_group()
    try:
        work.wait()
        torch.openreg.synchronize()
    except RuntimeError as error:
        return str(error), time.perf_counter() - start
    return "no error", 0.0


@BEFORE
def test_abort(before):
    with Ranks(2, timeout=30) as ranks:
        ranks.start(abort, before)
        error, seconds = ranks.results()[0]
    assert "aborted" in error and seconds < 2, error


def own_inbox():
    """The path of the memory where this process gets messages."""
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the folder
            if "openreg_occl" in os.readlink(f"/proc/self/fd/{descriptor}"):
                return f"/proc/{os.getpid()}/fd/{descriptor}"
    raise AssertionError("this process has no inbox")


def write_random_bytes(path, seed, ended):
    chance = random.Random(seed)
    with open(path, "r+b", buffering=0) as inbox:
        size = os.fstat(inbox.fileno()).st_size
        while not ended.wait(0.0001):
            inbox.seek(chance.randrange(size))
            inbox.write(chance.randbytes(min(chance.choice((1, 8, 100)), size - inbox.tell())))


def call_while_memory_changes(rank, world, seed):
    """A thread of rank 1 writes to the memory where rank 0 gets messages. Returns the error."""
    agree(1)
    inboxes = [None, None]
    dist.all_gather_object(inboxes, own_inbox())
    ended = threading.Event()
    writer = threading.Thread(target=write_random_bytes, args=(inboxes[0], seed, ended))
    if rank == 1:
        writer.start()
    try:
        agree(20_000)
    except RuntimeError as error:
        return str(error)
    finally:
        ended.set()
        if rank == 1:
            writer.join()
    return ""


@pytest.mark.parametrize("seed", range(8))
def test_random_bytes_in_the_shared_memory(seed):
    """An error, and no crash."""
    with Ranks(2, timeout=TIMEOUT) as ranks:
        errors = ranks.run(call_while_memory_changes, seed)
    assert "all_reduce" in errors[0], errors
    assert all(re.search("failed on rank|work before it has failed", error) for error in errors if error), (
        errors
    )


def train_with_a_dead_peer(rank, world):
    """No optimizer step with gradients that were not reduced."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 100).to(DEVICE))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):  # the second step rebuilds the buckets, with a broadcast
        optimizer.zero_grad()
        model(ones((4, 100))).sum().backward()
        optimizer.step()
    torch.openreg.synchronize()
    before = [parameter.detach().cpu() for parameter in model.parameters()]
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)
    optimizer.zero_grad()
    try:
        model(ones((4, 100))).sum().backward()
        optimizer.step()
        torch.openreg.synchronize()
    except RuntimeError as error:
        with contextlib.suppress(RuntimeError):  # another stream may have waited for the failed one
            torch.openreg.synchronize()
        after = [parameter.detach().cpu() for parameter in model.parameters()]
        unchanged = all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        return str(error), unchanged
    return "no error", False


def test_no_step_with_unreduced_gradients():
    with Ranks(2, timeout=TIMEOUT) as ranks:
        ranks.start(train_with_a_dead_peer)
        ((error, unchanged),) = ranks.results([0])
    assert "all_reduce" in error and unchanged, error


def exit_with_pending_work(rank, world):
    if rank == 0:
        dist.all_reduce(ones(10), async_op=True)
    return None


def test_a_rank_exits_with_pending_work():
    start = time.perf_counter()
    ranks = Ranks(2, timeout=300)
    ranks.run(exit_with_pending_work)
    for process in ranks.processes[1:]:
        process.kill()
    ranks.pipes[0].close()  # rank 0 ends with an exception, with the operation pending
    ranks.processes[0].join(20)
    assert not ranks.processes[0].is_alive()
    assert time.perf_counter() - start < 60


def raise_error(rank, world):
    raise KeyError(rank)


def test_errors_of_ranks_are_reported(two):
    with pytest.raises(RankError, match="KeyError: 1"):
        two.run(raise_error)


def watched(rank, size, path):
    """Rank 1 comes late to a collective. Returns what the watchdog of rank 0 prints."""
    tensor = ones(3)
    torch.openreg.synchronize()
    if rank == 1:
        end = time.monotonic() + TIMEOUT / 2
        while time.monotonic() < end and not os.path.exists(path + ".done"):
            time.sleep(0.05)
        dist.all_reduce(tensor)
        return tensor.tolist()
    saved = os.dup(2)
    with open(path, "w+") as file:
        os.dup2(file.fileno(), 2)
        try:
            with torch.openreg.watchdog(0.2):
                dist.all_reduce(tensor)
                end = time.monotonic() + TIMEOUT / 2
                while time.monotonic() < end and "watchdog" not in Path(path).read_text():
                    time.sleep(0.05)
                Path(path + ".done").touch()
                assert tensor.tolist() == [2.0, 2.0, 2.0]
        finally:
            os.dup2(saved, 2)
    return Path(path).read_text()


def test_the_watchdog_names_a_collective_that_waits(tmp_path):
    with Ranks(2, timeout=TIMEOUT) as ranks:
        text, result = ranks.run(watched, str(tmp_path / "stderr"))
    assert result == [2.0, 2.0, 2.0]
    assert re.search(
        r"next:  occl:all_reduce \(all_reduce .*in the process group .*which waits for other ranks\)", text
    ), text
    assert "test_group_failures.py" in text, text
