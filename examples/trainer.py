"""Common code of the training examples: training loop, progress bar, mixed precision, checkpoints, profile.

The code works on any device. A task defines model, data and loss; see image_classifier.py and language_model.py.
"""

import argparse
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import nn

REPORT_EVERY = 10  # steps; reading a loss synchronizes, so the bar does not do it at every step


class Task(Protocol):
    model: nn.Module  # created on the host, so that the initial weights are the same on every device
    learning_rate: float

    def batch(self, step: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of a step, on the host. They depend only on the step and the seed."""

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor: ...


@dataclass
class Options:
    device: str = "cpu"
    steps: int = 100
    seed: int = 0
    amp: str | None = None  # "bfloat16" or "float16"
    dropout: float = 0.0
    checkpoint: Path | None = None
    resume: bool = False
    profile: Path | None = None
    quiet: bool = False


def parse(description: str) -> Options:
    parser = argparse.ArgumentParser(description=description)
    found = torch.accelerator.current_accelerator()
    default = "cpu" if found is None else found.type
    parser.add_argument("--device", default=default, help="cpu, openreg, cuda, ... (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--amp", nargs="?", const="bfloat16", choices=["bfloat16", "float16"], help="mixed precision"
    )
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--checkpoint", type=Path, help="file to write at the end")
    parser.add_argument("--resume", action="store_true", help="resume from the checkpoint")
    parser.add_argument("--profile", type=Path, metavar="TRACE.json", help="write a trace of a few steps")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    if options.resume and options.checkpoint is None:
        parser.error("--resume needs --checkpoint")
    return Options(**vars(options))


class Trainer:
    def __init__(self, task: Task, options: Options) -> None:
        self.task, self.options = task, options
        self.device = torch.device(options.device)
        self.model = task.model.to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=task.learning_rate)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1, (step + 1) / 10)
        )
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=options.amp == "float16")
        self.step = 0

    def train_one(self) -> torch.Tensor:
        """One step. Returns its loss without synchronizing."""
        batch = self.task.batch(self.step, self.options.seed)
        if self.device.type != "cpu":
            batch = tuple(tensor.pin_memory() for tensor in batch)
        inputs, targets = (tensor.to(self.device, non_blocking=True) for tensor in batch)
        self.optimizer.zero_grad()
        with self.precision():
            loss = self.task.loss(inputs, targets)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        self.step += 1
        return loss.detach()

    def precision(self) -> contextlib.AbstractContextManager:
        if self.options.amp is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.options.amp))

    def train(self) -> list[float]:
        """Trains until ``options.steps``. Returns the losses of the steps of this run."""
        losses = []
        with profile(self.options) as after_step, progress(self.options, self.step) as report:
            while self.step < self.options.steps:
                losses.append(self.train_one())
                after_step()
                report(self.step, losses[-1])
        return torch.stack(losses).tolist() if losses else []

    # ---- Checkpoints

    def state(self) -> dict[str, Any]:
        states = {"cpu": torch.get_rng_state()}
        if self.device.type != "cpu":
            states[self.device.type] = torch.get_device_module(self.device).get_rng_state(self.device)
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "random": states,
            "step": self.step,
        }

    def save(self, path: Path) -> None:
        """Writes a temporary file and then replaces ``path``, so that the checkpoint is always complete."""
        temporary = path.with_suffix(".writing")
        torch.save(self.state(), temporary)
        os.replace(temporary, path)

    def load(self, path: Path) -> None:
        """Restores a checkpoint from any device."""
        state = torch.load(path, map_location="cpu")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        if self.scaler.is_enabled() and state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        torch.set_rng_state(state["random"]["cpu"])
        if self.device.type in state["random"] and self.device.type != "cpu":
            module = torch.get_device_module(self.device)
            module.set_rng_state(state["random"][self.device.type], self.device)
        self.step = state["step"]


@contextlib.contextmanager
def progress(options: Options, begin: int) -> Iterator:
    if options.quiet:
        yield lambda step, loss: None
        return
    columns = [TextColumn(f"{options.device:>8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, TextColumn("loss {task.fields[loss]}")) as bar:
        task = bar.add_task("", total=options.steps, completed=begin, loss="")

        def report(step: int, loss: torch.Tensor) -> None:
            fields = {"loss": f"{loss.item():.4f}"} if step % REPORT_EVERY == 0 else {}
            bar.update(task, completed=step, **fields)

        yield report


@contextlib.contextmanager
def profile(options: Options) -> Iterator:
    """Profiles steps 3 to 5 of the run, after shape inference and memory allocation."""
    if options.profile is None:
        yield lambda: None
        return
    with torch.profiler.profile(
        activities=torch.profiler.supported_activities(),
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1),
        on_trace_ready=lambda result: result.export_chrome_trace(str(options.profile)),
    ) as profiler:
        yield profiler.step


def run(make_task: type[Task], options: Options) -> list[float]:
    """Trains from a seed or a checkpoint. Returns the losses of the steps of this run."""
    torch.manual_seed(options.seed)
    trainer = Trainer(make_task(options), options)
    if options.resume:
        trainer.load(options.checkpoint)
    losses = trainer.train()
    if options.checkpoint is not None:
        trainer.save(options.checkpoint)
    if losses and not options.quiet:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {len(losses)} steps")
    return losses
