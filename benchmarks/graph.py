"""Compares launching a training step of about 200 operators with replaying it as a graph: `make bench`.

Measures the host time until the device is idle. Rounds alternate, and the best round of each counts.
"""

import argparse
from collections.abc import Callable

import torch
from bench import accelerator, one_round
from torch import nn

LAYERS = 25
LIMIT = 0.6  # maximum ratio of replay time to launch time


def training_step(width: int, layers: int, batch: int, device: torch.device) -> Callable[[], object]:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)))
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)
    data = torch.randn(batch, width).to(device)

    def step() -> None:
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a row exceeds the limit")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = accelerator()
    print(
        f"{'training step of an MLP, SGD':34} {'operators':>9} {'launched':>12} {'replayed':>12} {'ratio':>6}"
    )
    worst = 0.0
    for width, batch in ((16, 8), (64, 32), (128, 64)):
        stream = torch.Stream(device)
        with stream:
            step = training_step(width, LAYERS, batch, device)
            for _ in range(3):
                step()
            before = torch.openreg.operator_totals().launches
            step()
            operators = torch.openreg.operator_totals().launches - before
            graph = torch.accelerator.Graph()
            with graph:
                step()
            best = [float("inf"), float("inf")]
            for _ in range(options.rounds):
                for side, body in enumerate((step, graph.replay)):
                    once = one_round(body, torch.accelerator.synchronize, 10)
                    best[side] = min(best[side], once)
        ratio = best[1] / best[0]
        worst = max(worst, ratio)
        times = f"{best[0] * 1e6:9.0f} us {best[1] * 1e6:9.0f} us"
        print(
            f"{f'{LAYERS} layers, {width} wide, batch {batch}':34} {operators:9} {times} {ratio:6.2f}",
            flush=True,
        )
    if options.check and worst > LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
