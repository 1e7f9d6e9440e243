"""Compiled functions: the device and the CPU, default and reduce-overhead; CPU time of all threads, one compute thread.

The alternatives of a row run in turn in one process, so that their ratios hold on a busy machine.
"""

import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

ROUNDS = 7
SECONDS = 0.15  # of one measurement


def cpu_seconds(call: Callable[[], object]) -> float:
    """CPU time of one call, of all threads of the process."""
    calls, spent = 1, 0.0
    while True:
        torch.openreg.synchronize()
        start = time.process_time()
        for _ in range(calls):
            call()
        torch.openreg.synchronize()
        spent = time.process_time() - start
        if spent >= SECONDS:
            return spent / calls
        calls = max(2 * calls, int(calls * SECONDS / max(spent, 1e-6)))


def measure(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    for call in calls.values():
        for _ in range(5):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(cpu_seconds(call))
    return {name: sorted(found)[ROUNDS // 2] for name, found in times.items()}


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
        "case", "compiled, device / CPU", "compiled / eager, device", "reduce-overhead / default, device"
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


def ratios(calls: dict[str, Callable[[], object]]) -> list[str]:
    found = measure(calls)
    pairs = (("device", "cpu"), ("device", "eager"), ("graphed", "device"))
    return [f"{found[a] / found[b]:.2f}" for a, b in pairs]


if __name__ == "__main__":
    main()
