"""The time to compile a transformer layer, with its backward pass: on the device and on the CPU, cold and from the disk cache.

Each measurement is a process of its own: the time of the first training step, without imports and initialization. Cold runs
start with an empty cache. The devices run in turn; the best of each counts.
"""

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time

import torch
from compiler import STEPS
from rich.console import Console
from rich.table import Table

DEVICES = ("cpu", "openreg")


def first_step(device: str) -> float:
    torch.set_num_threads(1)
    make, width, shape = STEPS["training step, transformer layer"]
    model, x = make(width).to(device), torch.randn(shape).to(device)
    model(x).sum().backward()  # initializes the device and its threads
    importlib.import_module("torch._inductor.compile_fx")
    torch.accelerator.synchronize()
    start = time.perf_counter()
    torch.compile(model)(x).square().mean().backward()
    torch.accelerator.synchronize()
    return time.perf_counter() - start


def measured(device: str, cache: str) -> float:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--device", device],
        env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", choices=DEVICES, help="measure once, in this process")
    given = parser.parse_args()
    if given.device:
        print(first_step(given.device))
        return
    cold: dict[str, list[float]] = {device: [] for device in DEVICES}
    cached: dict[str, list[float]] = {device: [] for device in DEVICES}
    for _ in range(given.rounds):
        for device in DEVICES:
            with tempfile.TemporaryDirectory() as cache:
                cold[device].append(measured(device, cache))
                cached[device].append(measured(device, cache))
    table = Table("first compiled step of a transformer layer", *DEVICES, "ratio", "limit")
    for name, times in (("cold", cold), ("from the disk cache", cached)):
        cpu, ours = (min(times[device]) for device in DEVICES)
        table.add_row(name, f"{cpu:.2f} s", f"{ours:.2f} s", f"{ours / cpu:.2f}", "1.00")
    Console().print(table)


if __name__ == "__main__":
    main()
