"""A child that is forked from a busy parent frees inherited objects, gets errors from device calls, and exits.

Another thread of the parent may hold any lock at the time of the fork, and no thread of the child unlocks it.
A child that acquires such a lock never exits.
"""

import os
import subprocess
import sys

import pytest
from interpreter import execute

PROGRAM = """
import gc, os, sys, signal, threading, time, warnings, torch
warnings.simplefilter("ignore")

class Held:
    pass

held = Held()
held.tensors = [torch.ones(n, device="openreg") for n in (1, 1000, 1 << 20)]
held.lazy = torch._lazy_clone(held.tensors[1])
held.pinned = [torch.ones(1000).pin_memory() for _ in range(3)]
held.copies = [p.to("openreg", non_blocking=True) for p in held.pinned]
held.events = [torch.accelerator.current_stream().record_event() for _ in range(3)]
held.streams = [torch.openreg.Stream() for _ in range(3)]
held.generator = torch.Generator(device="openreg")
held.pool = torch.openreg.MemPool()
held.graph = torch.openreg.Graph() if hasattr(torch.openreg, "Graph") else None
held.found = held.tensors[1].nonzero()  # allocated by a kernel
stop = threading.Event()

def work(number):
    with torch.openreg.stream(torch.openreg.Stream()):
        while not stop.is_set():
            a = torch.ones(1000 * (number + 1), device="openreg")
            b = torch.ones(500).pin_memory()  # pin_memory=True would initialize CUDA if there is a GPU
            a[:500].copy_(b, non_blocking=True)
            a.add_(1).nonzero()
            torch.rand(10, device="openreg")
            torch.accelerator.current_stream().record_event()
            a.record_stream(torch.openreg.default_stream())
            del a, b

threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(3)]
for thread in threads:
    thread.start()

def refused(call):
    try:
        call()
    except RuntimeError as error:
        return "fork" in str(error)
    return False

def child(leave):
    signal.alarm(60)  # a child that hangs is killed, and fails
    sys.unraisablehook = lambda _: os._exit(4)
    tensor = held.tensors[0]
    for call in [
        lambda: torch.empty(3, device="openreg"),
        lambda: tensor + 1,
        lambda: tensor.fmod(3.0),  # not called by the parent
        lambda: tensor.cpu(),
        lambda: torch.ones(3).pin_memory(),
        lambda: torch.rand(3, device="openreg"),
        lambda: held.generator.manual_seed(1),
        lambda: torch.openreg.Stream(),
    ]:
        if not refused(call):
            os._exit(3)
    del tensor
    held.__dict__.clear()
    gc.collect()
    torch.ones(1000).clone()
    leave(0)

for turn in range(COUNT):
    pid = os.fork()
    if pid == 0:
        child(LEAVE)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, (turn, status)
assert all(thread.is_alive() for thread in threads)
stop.set()
for thread in threads:
    thread.join()
"""


# PyTorch without a device: with some C libraries, the destructor of its thread pool crashes in a forked child.
PLAIN = """
import os, sys, torch
torch.set_num_threads(2)  # creates the pool
pid = os.fork()
if pid == 0:
    sys.exit(0)
sys.exit(0 if os.waitpid(pid, 0)[1] == 0 else 1)
"""


def torch_survives_a_fork() -> bool:
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return subprocess.run([sys.executable, "-c", PLAIN], env=environment).returncode == 0


@pytest.mark.parametrize("leave, count", [("os._exit", 100), ("sys.exit", 20)])
def test_forked_children_of_a_busy_parent_exit(leave, count):
    if leave == "sys.exit" and not torch_survives_a_fork():
        pytest.skip("the thread pool of PyTorch crashes at the exit of a forked child")
    execute(PROGRAM.replace("COUNT", str(count)).replace("LEAVE", leave))
