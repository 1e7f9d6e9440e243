"""Groups: splits, forks, and groups in one process."""

import os
import subprocess
import sys

import pytest

from torch_openreg._torch_versions import SPLIT_GROUP_SUPPORTS_ACCELERATORS

SPLIT = """
import sys
import torch, torch.distributed as dist

rank = int(sys.argv[2])
torch.openreg.set_device(rank)
dist.init_process_group(
    "openreg:occl,cpu:gloo", init_method=sys.argv[1], rank=rank, world_size=2, device_id=torch.device("openreg", rank)
)
group = dist.split_group(split_ranks=[[0], [1]])
for device in ("openreg", "cpu"):
    tensor = torch.ones(3, device=device)
    dist.all_reduce(tensor, group=group)
    assert tensor.cpu().tolist() == [1, 1, 1]
whole = torch.ones(3, device="openreg")
dist.all_reduce(whole)
assert whole.cpu().tolist() == [2, 2, 2]
dist.destroy_process_group()
"""

FORK = """
import os, sys
import torch, torch.distributed as dist

dist.init_process_group(init_method=sys.argv[1], rank=0, world_size=1)
tensor = torch.ones(10, device="openreg")
dist.all_reduce(tensor)
torch.openreg.synchronize()
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
dist.all_reduce(tensor)
torch.openreg.synchronize()
"""

FAKE = """
import torch, torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
tensor = torch.ones(3, device="openreg")
dist.broadcast(tensor, 0)
assert tensor.tolist() == [1, 1, 1]
"""


def start(program, *arguments):
    environment = {**os.environ, "OPENREG_AUTOLOAD": "1"}
    return subprocess.Popen([sys.executable, "-W", "ignore", "-c", program, *arguments], env=environment)


@pytest.mark.skipif(
    not SPLIT_GROUP_SUPPORTS_ACCELERATORS, reason="before torch 2.12, split_group needs a backend for CUDA"
)
def test_split_group(tmp_path):
    processes = [start(SPLIT, f"file://{tmp_path}/store", str(rank)) for rank in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]


def test_a_forked_child_exits(tmp_path):
    assert start(FORK, f"file://{tmp_path}/store").wait(120) == 0


def test_a_fake_group_takes_tensors_of_the_device():
    assert start(FAKE).wait(120) == 0
