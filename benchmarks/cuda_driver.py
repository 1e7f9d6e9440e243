"""Compares the driver of examples/drivers/cuda with torch.cuda, on one GPU in one run.

python benchmarks/cuda_driver.py, with OPENREG_DRIVER or the package torch_nv. Rounds alternate between both, and the best
round of each counts. Exit status 1 with --check if a row exceeds its limit.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

Body = Callable[[], object]


def ours() -> str:
    """The name of the device: openreg, or that of the vendor's package."""
    return torch._C._get_privateuse1_backend_name()


def synchronize(device: str) -> None:
    torch.get_device_module(device).synchronize()


@dataclass
class Row:
    name: str
    make: Callable[[str], Body]
    limit: float  # of the ratio of the time to that of torch.cuda
    count: int = 1
    host: bool = False  # time of the calls, without the work on the GPU
    megabytes: float = 0  # copied by a call

    def time_once(self, body: Body, device: str) -> float:
        synchronize(device)
        start = time.perf_counter()
        for _ in range(self.count):
            body()
        called = time.perf_counter()
        synchronize(device)
        return ((called if self.host else time.perf_counter()) - start) / self.count


SIZE = 64 << 20  # elements of a copy, 256 megabytes


def to_device(device: str) -> Body:
    source, target = torch.ones(SIZE).pin_memory(), torch.empty(SIZE, device=device)
    return lambda: target.copy_(source, non_blocking=True)


def from_device(device: str) -> Body:
    source, target = torch.ones(SIZE, device=device), torch.ones(SIZE).pin_memory()
    return lambda: target.copy_(source, non_blocking=True)


def launch(device: str) -> Body:
    a, b = (torch.ones(1024, device=device) for _ in range(2))
    return lambda: a + b


def matmul(device: str) -> Body:
    a, b, out = (torch.ones(4096, 4096, device=device) for _ in range(3))
    return lambda: torch.mm(a, b, out=out)


def training(device: str) -> Body:
    torch.manual_seed(0)
    layers = [module for _ in range(4) for module in (nn.Linear(2048, 2048), nn.ReLU())]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data, target = (torch.randn(1024, 2048).to(device) for _ in range(2))

    def step() -> None:
        optimizer.zero_grad()
        (model(data) - target).square().mean().backward()
        optimizer.step()

    return step


ROWS = (
    Row("copy of 256 MB, pinned host to device", to_device, 1 / 0.95, count=4, megabytes=SIZE * 4e-6),
    Row("copy of 256 MB, device to pinned host", from_device, 1 / 0.95, count=4, megabytes=SIZE * 4e-6),
    Row("launch of an addition, host time", launch, 1.3, count=500, host=True),
    Row("matmul of 4096 x 4096, float32", matmul, 1.05, count=10),
    Row("training step, 4 layers of 2048, batch 1024", training, 1.2, count=10),
)


class Side:
    """One device in its own process: PyTorch's autograd supports one accelerator in a process."""

    def __init__(self, device: str, driver_loaded: bool) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1" if driver_loaded else "0"},
        )

    def seconds(self, row: int) -> float:
        assert self.process.stdin and self.process.stdout
        print(row, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the measuring process ended with status {self.process.wait()}")
        return float(answer)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def serve(device: str) -> None:
    """Reads numbers of rows, and writes the seconds of a call."""
    known: tuple[int, Body] | None = None
    for line in sys.stdin:
        index = int(line)
        if known is None or known[0] != index:
            known = (index, ROWS[index].make(device))
        print(ROWS[index].time_once(known[1], device), flush=True)


def measure(row: int, sides: tuple[Side, Side], rounds: int) -> tuple[float, float]:
    """Best seconds of both sides, in alternating rounds after three for warming up."""
    times = [(sides[0].seconds(row), sides[1].seconds(row)) for _ in range(3 + rounds)][3:]
    return min(first for first, _ in times), min(second for _, second in times)


def describe(row: Row, seconds: float) -> str:
    if row.megabytes:
        return f"{row.megabytes / seconds / 1e3:.1f} GB/s"
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--serve", metavar="DEVICE", help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a row exceeds its limit")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs an NVIDIA GPU and a torch with CUDA")
    table = Table(title=f"{ours()} beside torch.cuda, {torch.cuda.get_device_name()}")
    for column in ("", "torch.cuda", ours(), "time ratio", "limit"):
        table.add_column(column, justify="left" if not column else "right")
    exceeded = False
    sides = Side("cuda", driver_loaded=False), Side(ours(), driver_loaded=True)
    for index, row in enumerate(ROWS):
        theirs, mine = measure(index, sides, options.rounds)
        ratio = mine / theirs
        exceeded = exceeded or ratio > row.limit
        style = "red" if ratio > row.limit else None
        cells = (row.name, describe(row, theirs), describe(row, mine), f"{ratio:.2f}", f"{row.limit:.2f}")
        table.add_row(*cells, style=style)
    for side in sides:
        side.close()
    Console(width=110).print(table)
    if options.check and exceeded:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
