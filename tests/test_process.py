"""Processes: exit with pending work, and tensors and events shared between processes."""

import gc
import subprocess
import sys
import threading

import peer
import pytest
import soak_process
import torch
import torch.multiprocessing as mp
from blocked_stream import held
from interpreter import environment

import torch_openreg._C
from torch_openreg.openreg import process

# ---- A process can exit at any point with pending work: no crash, no hang, no output from a thread

PENDING = """
import sys, torch
a = torch.randn(500, 500, device="openreg")
for _ in range(20):
    b = a @ a
"""

ENDS = {
    "end of the program": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "os._exit": ("import os; os._exit(4)", 4),
    "raises": ("raise KeyError('mine')", 1),
    "kernel error without synchronization": (
        "i = torch.tensor([9], device='openreg'); torch.ones(2, device='openreg')[i]",
        0,
    ),
    "another stream": (
        "s = torch.openreg.Stream(); s.wait_stream(torch.openreg.current_stream()); torch.openreg.set_stream(s); b = a @ a",
        0,
    ),
    "a thread": ("import threading; t = threading.Thread(target=lambda: a @ a); t.start(); t.join()", 0),
}


def run(program: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment())


@pytest.mark.parametrize("how", ENDS)
def test_exit_with_pending_work(how):
    statement, code = ENDS[how]
    done = run(PENDING + statement)
    assert done.returncode == code, done.stderr
    if how == "kernel error without synchronization":
        assert "index 9 is out of bounds" in done.stderr
    else:
        assert done.stderr == "" or "KeyError: 'mine'" in done.stderr


def test_exit_right_after_backward():
    program = (
        "import torch; torch.nn.Linear(4, 4).openreg()(torch.ones(2, 4, device='openreg')).sum().backward()"
    )
    for _ in range(8):
        done = run(program)
        assert done.returncode == 0, done.stderr


def test_forked_child_raises_and_the_parent_continues():
    program = PENDING + (
        "import os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        torch.ones(1, device='openreg')\n"
        "    except RuntimeError as error:\n"
        "        os._exit(7 if 'spawn' in str(error) else 8)\n"
        "    os._exit(9)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
        "assert b.shape == (500, 500) and (b == b).all().item()\n"
    )
    done = run(program)
    assert done.returncode == 0, done.stderr


# ---- Tensors between processes


@pytest.fixture(scope="module")
def shared_peer():
    started = peer.Peer()
    yield started
    started.stop()


@pytest.fixture
def other(shared_peer):
    """Another process, without objects of earlier tests."""
    yield shared_peer
    shared_peer.ask(peer.drop)


@pytest.fixture
def peer_to_kill():
    """Another process, to be killed."""
    started = peer.Peer()
    yield started
    started.kill()


def allocated() -> int:
    gc.collect()
    torch.openreg.ipc_collect()
    torch.openreg.synchronize()
    return torch.accelerator.memory_allocated()


def test_both_processes_see_the_same_memory(other):
    a = torch.arange(6.0, device="openreg")
    other.ask(peer.add, a, 10)
    assert a.tolist() == [10, 11, 12, 13, 14, 15]
    b = other.ask(peer.make, 2, 3)
    b[1, 2] = 8
    torch.openreg.synchronize()
    assert other.ask(peer.made) == [[3, 3, 3], [3, 3, 8]]


def test_queue_sends_tensors_in_both_directions():
    context = mp.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=peer.double_what_comes, args=(there, back))
    process.start()
    kept = []
    for i in range(3):
        kept.append(torch.full((1000,), float(i), device="openreg"))
        there.put(kept[-1])
    for i in range(3):
        doubled = back.get(timeout=60)
        assert doubled.device == torch.device("openreg:0") and doubled[999].item() == 2 * i
        del doubled
    assert [k[0].item() for k in kept] == [-1, -1, -1]
    there.put(None)
    process.join(60)
    assert process.exitcode == 0


def test_forkserver_works():
    started = peer.Peer("forkserver")
    a = torch.zeros(3, device="openreg")
    started.ask(peer.add, a, 1)
    assert a.tolist() == [1, 1, 1]
    started.stop()


def test_received_views_share_one_storage(other):
    a = torch.arange(12.0, device="openreg")
    here = [a, a[3:], a.view(3, 4).t()]
    there = other.ask(peer.describe, here)
    assert len({storage for storage, *_ in there}) == 1
    assert [offset for _, offset, *_ in there] == [0, 12, 0]
    assert [values for *_, values in there] == [t.tolist() for t in here]


def test_storage_sent_twice_is_opened_once(other):
    a = torch.arange(12.0, device="openreg")
    b = torch.arange(12.0, device="openreg")  # adjacent, in the same segment
    other.ask(peer.keep, a)
    assert other.ask(peer.same_storage_as_kept, a[5:])
    assert not other.ask(peer.same_storage_as_kept, b)
    a.add_(1)
    torch.openreg.synchronize()
    assert other.ask(peer.read) == a.tolist()


def test_received_tensor_has_the_same_metadata(other):
    tensors = [
        torch.nn.Parameter(torch.ones(2, device="openreg")),
        torch.ones(2, device="openreg:1", requires_grad=True),
        torch.tensor([True, False], device="openreg"),
        torch.tensor([1 + 2j], device="openreg"),
        torch.empty(0, 3, device="openreg", dtype=torch.int8),
        torch.tensor(5, device="openreg"),
    ]
    assert [d[2:6] for d in other.ask(peer.describe, tensors)] == [
        (type(t).__name__, t.requires_grad, str(t.device), str(t.dtype)) for t in tensors
    ]


@pytest.mark.host_engine  # sparse tensors
def test_sparse_tensors_are_shared(other):
    eye = torch.eye(3, device="openreg")
    for sparse in (eye.to_sparse(), eye.to_sparse_csr()):
        other.ask(peer.keep, sparse)
        assert other.ask(peer.call, "to_dense").tolist() == torch.eye(3).tolist()


def test_model_parameters_are_shared(other):
    model = torch.nn.Linear(3, 2).openreg()
    other.ask(peer.keep, model)
    with torch.no_grad():
        model.weight.fill_(7)
    torch.openreg.synchronize()
    assert other.ask(peer.weight) == [[7, 7, 7], [7, 7, 7]]


def test_non_leaf_tensor_raises(other):
    a = torch.ones(2, device="openreg", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="non-leaf tensor"):
        other.ask(peer.keep, a)


# ---- Ordering


def test_receiver_waits_for_pending_work_of_the_sender(other):
    a = torch.zeros(1000, device="openreg")
    torch.openreg.synchronize()
    with torch.openreg.schedule("async"), held(torch.openreg.current_stream()):
        a.fill_(2)
        assert other.ask(peer.begin_sum, a) is False
    assert other.ask(peer.read) == 2000


def test_queue_thread_orders_after_the_stream_of_the_tensor(other):
    """The queue pickles on a thread whose current stream is the default one."""
    side = torch.openreg.Stream()
    with torch.openreg.schedule("async"), torch.openreg.stream(side):
        a = torch.zeros(1000, device="openreg")
        torch.openreg.synchronize()
        with held(side):
            a.fill_(3)
            sender = threading.Thread(target=lambda: other.begin(peer.begin_sum, a))
            sender.start()
            sender.join()
            assert other.end() is False
    assert other.ask(peer.read) == 3000


def test_events_order_two_processes(other):
    event = torch.openreg.Event(interprocess=True)
    assert event.query()
    a = torch.zeros(4, device="openreg")
    torch.openreg.synchronize()
    other.ask(peer.keep, event)
    with torch.openreg.schedule("async"), held(torch.openreg.current_stream()):
        a.fill_(6)
        event.record()
        assert other.ask(peer.call, "query") is False
        assert other.ask(peer.wait_and_read_later, event) is False
    assert other.ask(peer.is_done)
    assert event.query()


def test_event_of_another_process_can_be_recorded(other):
    event = other.ask(peer.make_event)
    assert event.query() and event.device == torch.device("openreg:0")
    with torch.openreg.schedule("async"), held(torch.openreg.current_stream()):
        event.record()
        assert not event.query()
        assert other.ask(peer.query_made_event) is False
    event.synchronize()
    assert other.ask(peer.query_made_event)
    with pytest.raises(RuntimeError, match="only the process that created it"):
        event.ipc_handle()


def test_invalid_interprocess_events_raise():
    with pytest.raises(ValueError, match="does not support timing"):
        torch.openreg.Event(enable_timing=True, interprocess=True)
    with pytest.raises(RuntimeError, match="interprocess=True"):
        torch.openreg.Event().ipc_handle()
    with pytest.raises(ValueError, match="64 bytes"):
        torch.openreg.Event.from_ipc_handle(0, b"short")
    with pytest.raises(RuntimeError, match="not an event handle"):
        torch.openreg.Event.from_ipc_handle(0, bytes(64))


def test_event_of_a_killed_process_is_complete(peer_to_kill):
    event = torch.openreg.Event(interprocess=True)
    event.record()
    peer_to_kill.ask(peer.record_busy, event)
    assert not event.query()
    with torch.openreg.schedule("async"):
        event.wait()
        a = torch.ones(3, device="openreg") * 2
    peer_to_kill.kill()
    assert a.tolist() == [2, 2, 2]
    assert event.query()


# ---- Lifetime


def test_memory_lives_while_another_process_holds_it(other):
    before = allocated()
    other.ask(peer.keep, torch.full((100_000,), 5.0, device="openreg"))
    assert allocated() >= before + 400_000
    rest = [
        torch.zeros(100_000, device="openreg") for _ in range(8)
    ]  # would reuse the memory if it were free
    torch.openreg.synchronize()
    assert set(other.ask(peer.read)) == {5.0}
    del rest
    other.ask(peer.drop)
    assert allocated() == before


def test_tensor_freed_by_the_sender_survives_the_transfer(other):
    before = allocated()
    other.begin(peer.keep, torch.full((100_000,), 5.0, device="openreg"))
    rest = [torch.zeros(100_000, device="openreg") for _ in range(8)]
    torch.openreg.synchronize()
    other.end()
    assert set(other.ask(peer.read)) == {5.0}
    del rest
    other.ask(peer.drop)
    assert allocated() == before
    received = other.ask(peer.make_and_forget, 1000)
    assert set(received.tolist()) == {4.0}


def test_killed_consumer_releases_only_its_own_references(peer_to_kill, other):
    before = allocated()
    a = torch.full((1000,), 5.0, device="openreg")
    b = torch.full((1000,), 6.0, device="openreg")
    peer_to_kill.ask(peer.keep, [a, b])
    other.ask(peer.keep, a)
    del a, b
    assert allocated() > before
    peer_to_kill.kill()
    assert allocated() == before + 4096  # held by the other process
    assert set(other.ask(peer.read)) == {5.0}
    other.ask(peer.drop)
    assert allocated() == before


def test_memory_that_a_receiver_cannot_open_returns_to_the_sender(other):
    before = allocated()
    tensor = torch.ones(1000, device="openreg")
    rule = {"call": "orIpcOpenMemHandle", "nth": 1, "action": "error", "code": "orErrorSystem"}
    other.ask(peer.add_faults, [rule])
    with pytest.raises(RuntimeError, match="match 1 of orIpcOpenMemHandle"):
        other.ask(peer.keep, tensor)
    other.ask(peer.remove_faults)
    del tensor
    assert allocated() == before


def test_memory_of_a_killed_producer_stays_valid(peer_to_kill):
    a = peer_to_kill.ask(peer.make, 1000)
    assert set(peer_to_kill.ask(peer.made)) == {3.0}  # the kernel has run
    peer_to_kill.kill()
    a.add_(1)
    assert set(a.tolist()) == {4.0}
    del a
    torch.openreg.synchronize()


def test_tensor_of_an_ended_process_raises(peer_to_kill):
    peer_to_kill.begin(peer.make, 1000)
    assert peer_to_kill.connection.poll(60)
    peer_to_kill.kill()
    with pytest.raises(RuntimeError, match="has ended"):
        peer_to_kill.end()


@pytest.mark.simulated  # free memory of a GPU depends on all its processes
def test_received_memory_counts_only_in_the_owner(other):
    before = other.ask(peer.memory)
    a = torch.zeros(1 << 20, device="openreg")
    other.ask(peer.keep, a)
    assert other.ask(peer.memory) == before


def test_memory_released_by_other_processes_is_reclaimed_before_out_of_memory(other):
    _, total = torch.accelerator.get_memory_info()
    half = int(total * 0.4)
    torch.accelerator.empty_cache()
    other.ask(peer.keep, torch.empty(half, dtype=torch.uint8, device="openreg"))
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(total - half // 2, dtype=torch.uint8, device="openreg")
    other.ask(peer.drop)
    torch.empty(int(total * 0.9), dtype=torch.uint8, device="openreg")
    torch.accelerator.empty_cache()


def test_received_tensor_is_freed_after_pending_work(other):
    a = other.ask(peer.make, 1000)
    side = torch.openreg.Stream()
    with torch.openreg.schedule("async"):
        side.wait_stream(torch.openreg.current_stream())
        with held(side):
            with torch.openreg.stream(side):
                b = a * 2
            a.record_stream(side)
            del a
        side.synchronize()
    assert set(b.tolist()) == {6.0}


# ---- Errors


def test_received_tensor_cannot_be_sent_again(other):
    other.ask(peer.keep, torch.ones(3, device="openreg"))
    with pytest.raises(RuntimeError, match="send a clone"):
        other.ask(peer.send_back)
    assert other.ask(peer.send_back_clone).tolist() == [1, 1, 1]


def test_received_tensor_cannot_be_resized(other):
    a = other.ask(peer.make, 4)
    with pytest.raises(RuntimeError, match="cannot be resized"):
        a.resize_(100)
    assert a.tolist() == [3, 3, 3, 3]


def test_forged_and_stale_handles_raise(other):
    a = torch.arange(4.0, device="openreg")
    device, nbytes, handle, events = torch_openreg._C.share_storage(a.untyped_storage())
    rebuild = process.rebuild_storage
    for position in range(40):
        forged = bytearray(handle)
        forged[position] ^= 0x55
        with pytest.raises(RuntimeError):
            other.ask(peer.rebuild, device, nbytes, bytes(forged), events)
    with pytest.raises(RuntimeError, match="64 bytes"):
        other.ask(peer.rebuild, device, nbytes, handle[:10], events)
    with pytest.raises(RuntimeError, match="shared memory"):
        other.ask(peer.rebuild, device, 1 << 40, handle, events)
    with pytest.raises(RuntimeError, match="out of range"):
        other.ask(peer.rebuild, 9, nbytes, handle, events)
    assert other.ask(peer.rebuild, device, nbytes, handle, events) == nbytes
    del a
    allocated()
    with pytest.raises(RuntimeError, match="stale or forged"):
        other.ask(peer.rebuild, device, nbytes, handle, events)
    with pytest.raises(RuntimeError, match="does not refer to memory"):
        rebuild(device, nbytes, handle, events)


def test_process_that_receives_its_own_tensor_gets_the_same_storage():
    before = allocated()
    here, there = mp.get_context("spawn").Pipe()
    a = torch.arange(4.0, device="openreg")
    here.send(a)
    b = there.recv()
    assert b.untyped_storage()._cdata == a.untyped_storage()._cdata
    here.send(b)
    del a, b
    c = there.recv()
    assert c.tolist() == [0, 1, 2, 3]
    del c
    assert allocated() == before


def test_share_memory_is_a_no_op():
    a = torch.ones(3, device="openreg")
    assert a.share_memory_() is a
    assert torch.UntypedStorage._new_shared(8, device="openreg").device.type == "openreg"


def test_short_ipc_soak():
    done = soak_process.ipc(2, seed=1)
    assert done["tensors"] > 0
