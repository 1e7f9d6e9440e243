"""Compares the driver of examples/drivers/cuda with torch.cuda, on one GPU and in one process.

python benchmarks/cuda_driver.py, with OPENREG_DRIVER or the package torch_nv. Rounds alternate between both, and the best
round of each counts. Exit status 1 with --check if a row exceeds its limit.
"""

import argparse
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


def pinned_for(device: str) -> torch.Tensor:
    """A factory function with pin_memory=True uses CUDA's pinned memory, Tensor.pin_memory() that of our device."""
    return torch.empty(SIZE, pin_memory=True).fill_(1) if device == "cuda" else torch.ones(SIZE).pin_memory()


def to_device(device: str) -> Body:
    source, target = pinned_for(device), torch.empty(SIZE, device=device)
    return lambda: target.copy_(source, non_blocking=True)


def from_device(device: str) -> Body:
    source, target = torch.ones(SIZE, device=device), pinned_for(device)
    return lambda: target.copy_(source, non_blocking=True)


def launch(device: str) -> Body:
    a, b, out = (torch.ones(1024, device=device) for _ in range(3))
    return lambda: torch.add(a, b, out=out)


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


def measure(row: Row, rounds: int) -> tuple[float, float]:
    """Best seconds of torch.cuda and of our device."""
    devices = ("cuda", ours())
    bodies = [row.make(device) for device in devices]
    best = [float("inf"), float("inf")]
    for body, device in zip(bodies, devices, strict=True):
        for _ in range(3):
            row.time_once(body, device)
    for _ in range(rounds):
        for side, (body, device) in enumerate(zip(bodies, devices, strict=True)):
            best[side] = min(best[side], row.time_once(body, device))
    return best[0], best[1]


def describe(row: Row, seconds: float) -> str:
    if row.megabytes:
        return f"{row.megabytes / seconds / 1e3:.1f} GB/s"
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a row exceeds its limit")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs an NVIDIA GPU and a torch with CUDA")
    table = Table(title=f"{ours()} beside torch.cuda, {torch.cuda.get_device_name()}")
    for column in ("", "torch.cuda", ours(), "time ratio", "limit"):
        table.add_column(column, justify="left" if not column else "right")
    exceeded = False
    for row in ROWS:
        theirs, mine = measure(row, options.rounds)
        ratio = mine / theirs
        exceeded = exceeded or ratio > row.limit
        style = "red" if ratio > row.limit else None
        cells = (row.name, describe(row, theirs), describe(row, mine), f"{ratio:.2f}", f"{row.limit:.2f}")
        table.add_row(*cells, style=style)
    Console(width=110).print(table)
    if options.check and exceeded:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
