"""Compiled functions: the device and the CPU, default and reduce-overhead, with one compute thread.

CPU time is that of all threads of the process, also of the device's thread while it polls for the next launch. Wall time
is until the device is idle. The alternatives of a row run in turn in one process, so that their ratios hold on a busy
machine.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

ROUNDS = 7
SECONDS = 0.15  # of one measurement


@dataclass
class Seconds:
    cpu: float
    wall: float


def seconds(call: Callable[[], object]) -> Seconds:
    """The time of one call."""
    calls = 1
    while True:
        torch.openreg.synchronize()
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(calls):
            call()
        torch.openreg.synchronize()
        spent = Seconds(time.process_time() - cpu, time.perf_counter() - wall)
        if spent.cpu >= SECONDS:
            return Seconds(spent.cpu / calls, spent.wall / calls)
        calls = max(2 * calls, int(calls * SECONDS / max(spent.cpu, 1e-6)))


def measure(calls: dict[str, Callable[[], object]]) -> dict[str, Seconds]:
    """The medians."""
    for call in calls.values():
        for _ in range(5):
            call()
    times: dict[str, list[Seconds]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return {
        name: Seconds(median(one.cpu for one in found), median(one.wall for one in found))
        for name, found in times.items()
    }


def chain(x: torch.Tensor) -> torch.Tensor:
    return ((x * 2 + 1).sigmoid() * x - x.tanh()).relu() + x


def normalize(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, x.shape[-1:]))


def mlp(width: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU()
    )


def convolutions(_: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3)
    )


class Identity(torch.nn.Module):
    """One multiplication by a number: what is left is the cost of PyTorch's own Python and autograd."""

    def __init__(self, _: int) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def transformer(width: int) -> torch.nn.Module:
    return torch.nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)


FUNCTIONS = {
    "pointwise chain, 1M": (chain, (1 << 20,)),
    "softmax, 1024 x 1024": (lambda x: x.softmax(-1), (1024, 1024)),
    "layer norm + gelu, 1024 x 1024": (normalize, (1024, 1024)),
}
STEPS = {
    "training step, MLP 16": (mlp, 16, (8, 16)),
    "training step, MLP 256": (mlp, 256, (64, 256)),
    "training step, conv net": (convolutions, 0, (8, 3, 32, 32)),
    "training step, transformer layer": (transformer, 64, (4, 32, 64)),
}


def step_of(
    make: Callable[[int], torch.nn.Module], width: int, shape: tuple[int, ...], device: str, mode: str | None
):
    torch.manual_seed(0)
    model = make(width).to(device)
    run = model if mode == "eager" else torch.compile(model, mode=mode)
    x = torch.randn(shape).to(device)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        run(x).square().mean().backward()

    return step


def main() -> None:
    torch.set_num_threads(1)
    table = Table(
        "case",
        "compiled, device / CPU: CPU time",
        "wall time",
        "compiled / eager, device: CPU time",
        "reduce-overhead / default, device: CPU time",
        "wall time",
    )
    for name, (function, shape) in FUNCTIONS.items():
        x = torch.randn(shape)
        on_device = x.openreg()
        compiled, graphed = torch.compile(function), torch.compile(function, mode="reduce-overhead")
        table.add_row(
            name,
            *ratios(
                {
                    "cpu": lambda c=compiled, x=x: c(x),
                    "device": lambda c=compiled, x=on_device: c(x),
                    "eager": lambda f=function, x=on_device: f(x),
                    "graphed": lambda g=graphed, x=on_device: g(x),
                }
            ),
        )
    for name, (make, width, shape) in STEPS.items():
        torch._dynamo.reset()
        calls = {
            "cpu": step_of(make, width, shape, "cpu", None),
            "device": step_of(make, width, shape, "openreg", None),
            "eager": step_of(make, width, shape, "openreg", "eager"),
            "graphed": step_of(make, width, shape, "openreg", "reduce-overhead"),
        }
        table.add_row(name, *ratios(calls))
    Console().print(table)
    print_floor()


def print_floor() -> None:
    """What no backend can go below."""
    torch._dynamo.reset()
    found = measure(
        {
            "step": step_of(mlp, 16, (8, 16), "openreg", None),
            "nothing": step_of(Identity, 0, (1, 1), "cpu", None),
        }
    )
    print(
        f"A compiled training step of one multiplication on the CPU: {found['nothing'].wall * 1e6:.0f} us, "
        f"{found['nothing'].wall / found['step'].wall:.2f} of the wall time of the MLP 16 step on the device"
    )


def ratios(calls: dict[str, Callable[[], object]]) -> list[str]:
    found = measure(calls)
    device, cpu, eager, graphed = (found[name] for name in ("device", "cpu", "eager", "graphed"))
    values = (
        device.cpu / cpu.cpu,
        device.wall / cpu.wall,
        device.cpu / eager.cpu,
        graphed.cpu / device.cpu,
        graphed.wall / device.wall,
    )
    return [f"{value:.2f}" for value in values]


if __name__ == "__main__":
    main()
