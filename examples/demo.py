"""`make demo`: creates a tensor on the device, then trains a small model on the device and on the CPU."""

import time

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import nn

STEPS = 300
REPORT_EVERY = 50


class Run:
    """A classifier of points on two spirals, with the same initial weights and data on each device."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        self.device = torch.device(device)
        self.model = nn.Sequential(
            nn.Linear(2, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 2)
        )
        self.model.to(self.device)
        self.points, self.labels = (t.to(self.device) for t in spirals(512))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        self.seconds = 0.0

    def step(self) -> torch.Tensor:
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.points), self.labels)
        loss.backward()
        self.optimizer.step()
        if self.device.type != "cpu":
            torch.accelerator.synchronize()  # measure the work, not only its launch
        self.seconds += time.perf_counter() - start
        return loss

    def accuracy(self) -> float:
        with torch.no_grad():
            return (self.model(self.points).argmax(1) == self.labels).float().mean().item()


def spirals(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    angle = torch.linspace(0.5, 9.0, count)
    arm = torch.stack([angle * angle.cos(), angle * angle.sin()], 1) / 9
    return torch.cat([arm, -arm]), torch.arange(2).repeat_interleave(count)


def main() -> None:
    console = Console()
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None:
        raise SystemExit("torch found no accelerator: run `python -m torch_openreg doctor`")
    name = accelerator.type
    console.print(">>> import torch", f'>>> torch.tensor(1, device="{name}")', sep="\n", highlight=False)
    console.print(torch.tensor(1, device=name), highlight=False)
    console.print(
        f"\n{torch.accelerator.device_count()} devices: {torch.get_device_module(name).get_device_name()}\n"
    )

    table = Table("step", "loss, CPU", f"loss, {name}", title="One model, two devices")
    runs = [Run("cpu"), Run(name)]
    columns = [
        TextColumn("training"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=console) as progress:
        for step in progress.track(range(1, STEPS + 1)):
            losses = [run.step() for run in runs]
            if step == 1 or step % REPORT_EVERY == 0:
                table.add_row(str(step), *(f"{loss.item():.6f}" for loss in losses))
    table.add_section()
    table.add_row("seconds", *(f"{run.seconds:.2f}" for run in runs))
    table.add_row("accuracy", *(f"{run.accuracy():.1%}" for run in runs))
    console.print(table)


if __name__ == "__main__":
    main()
