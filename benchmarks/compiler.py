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

Call = Callable[[], object]


@dataclass
class Seconds:
    cpu: float
    wall: float


def seconds(call: Call) -> Seconds:
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


def measure(calls: list[Call]) -> list[Seconds]:
    """The medians."""
    for call in calls:
        for _ in range(5):
            call()
    rounds = [[seconds(call) for call in calls] for _ in range(ROUNDS)]
    return [
        Seconds(median(one.cpu for one in found), median(one.wall for one in found))
        for found in zip(*rounds, strict=True)
    ]


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
# The alternatives of a row, in the order in which they run.
CPU, CPU_EAGER, DEVICE, EAGER, REDUCE_OVERHEAD, CAPTURED = range(6)


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


def captured(call: Call) -> Call:
    """Replays a graph of the call."""
    side = torch.openreg.Stream()
    side.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(side):
        for _ in range(3):
            call()
    torch.openreg.current_stream().wait_stream(side)
    graph = torch.openreg.OpenRegGraph()
    with torch.openreg.graph(graph):
        call()
    return graph.replay


def function_calls(function: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]) -> list[Call]:
    x = torch.randn(shape)
    on_device = x.openreg()
    compiled, reduced = torch.compile(function), torch.compile(function, mode="reduce-overhead")
    return [
        lambda: compiled(x),
        lambda: function(x),
        lambda: compiled(on_device),
        lambda: function(on_device),
        lambda: reduced(on_device),
        captured(lambda: compiled(on_device)),
    ]


def step_calls(make: Callable[[int], torch.nn.Module], width: int, shape: tuple[int, ...]) -> list[Call]:
    torch._dynamo.reset()

    def step(device: str, mode: str | None) -> Call:
        return step_of(make, width, shape, device, mode)

    return [
        step("cpu", None),
        step("cpu", "eager"),
        step("openreg", None),
        step("openreg", "eager"),
        step("openreg", "reduce-overhead"),
        captured(step("openreg", None)),
    ]


def main() -> None:
    torch.set_num_threads(1)
    table = Table(
        "case",
        "compiled, device / CPU: CPU time",
        "wall time",
        "compiled / eager, CPU time: device",
        "CPU",
        "reduce-overhead / default: CPU time",
        "wall time",
        "graph of the call / default: CPU time",
        "wall time",
    )
    for name, function in FUNCTIONS.items():
        table.add_row(name, *ratios(function_calls(*function)))
    for name, step in STEPS.items():
        table.add_row(name, *ratios(step_calls(*step)))
    name, step = next(iter(STEPS.items()))
    with torch.autograd.set_multithreading_enabled(False):
        table.add_row(f"{name}, backward on one thread", *ratios(step_calls(*step)))
    Console(width=160).print(table)
    print_floor()


def print_floor() -> None:
    """What no backend can go below."""
    torch._dynamo.reset()
    step, nothing = measure(
        [step_of(mlp, 16, (8, 16), "openreg", None), step_of(Identity, 0, (1, 1), "cpu", None)]
    )
    print(
        f"A compiled training step of one multiplication on the CPU: {nothing.wall * 1e6:.0f} us, "
        f"{nothing.wall / step.wall:.2f} of the wall time of the MLP 16 step on the device"
    )


def ratios(calls: list[Call]) -> list[str]:
    found = measure(calls)
    device = found[DEVICE]
    values = (
        device.cpu / found[CPU].cpu,
        device.wall / found[CPU].wall,
        device.cpu / found[EAGER].cpu,
        found[CPU].cpu / found[CPU_EAGER].cpu,
        found[REDUCE_OVERHEAD].cpu / device.cpu,
        found[REDUCE_OVERHEAD].wall / device.wall,
        found[CAPTURED].cpu / device.cpu,
        found[CAPTURED].wall / device.wall,
    )
    return [f"{value:.2f}" for value in values]


if __name__ == "__main__":
    main()
