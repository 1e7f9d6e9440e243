"""torchrun: a device for each local rank, and restarts of the whole job after a failure."""

import os
import subprocess
import sys

PROGRAM = """
import os
import torch
import torch.distributed as dist

rank, restart = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
dist.init_process_group()
for size in (1, 100_000):
    tensor = torch.full((size,), rank + 1.0, device=torch.accelerator.current_accelerator())
    dist.all_reduce(tensor)
    assert tensor.unique().cpu().tolist() == [6.0], tensor
if restart == 0 and rank == 1:
    os._exit(3)
dist.barrier()
print(f"rank {rank} of {dist.get_world_size()} on {tensor.device}, restart {restart}", flush=True)
dist.destroy_process_group()
"""


def test_a_job_is_restarted(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    done = subprocess.run(
        [*command, "--max-restarts", "1", str(program)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENREG_AUTOLOAD": "1"},
    )
    assert done.returncode == 0, done.stderr
    for rank in range(3):
        assert f"rank {rank} of 3 on openreg:{rank}, restart 1" in done.stdout, done.stdout + done.stderr
