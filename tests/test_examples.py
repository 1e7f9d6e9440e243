"""The training examples: losses agree with the CPU, are reproducible from a seed, and continue from a checkpoint."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from interpreter import python

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))

from image_classifier import Shapes  # noqa: E402
from language_model import Repetition  # noqa: E402
from trainer import Options, run  # noqa: E402

TASKS = pytest.mark.parametrize("task", [Shapes, Repetition])
STEPS = 8
pytestmark = pytest.mark.usefixtures("one_thread")


def options(**changes) -> Options:
    return replace(Options(device="openreg", steps=STEPS, quiet=True), **changes)


@TASKS
def test_losses_agree_with_the_cpu(task):
    ours, theirs = run(task, options()), run(task, options(device="cpu"))
    assert len(ours) == STEPS and ours[-1] < ours[0]
    assert ours == pytest.approx(theirs, rel=1e-5)


@TASKS
def test_losses_in_mixed_precision_are_close(task):
    exact = run(task, options())
    for amp in ("bfloat16", "float16"):
        assert run(task, options(amp=amp)) == pytest.approx(exact, rel=0.05)


@TASKS
@pytest.mark.parametrize("amp", [None, "float16"])
def test_losses_from_a_seed_are_bitwise_equal_in_every_schedule(task, amp):
    chosen = options(amp=amp, dropout=0.2, seed=5, steps=5)
    seen = []
    for name, seed in [("async", 0), ("blocking", 0), ("adversarial", 1), ("adversarial", 2)]:
        with torch.openreg.schedule(name, seed):
            seen.append(run(task, chosen))
            torch.openreg.synchronize()
    assert all(losses == seen[0] for losses in seen)
    assert run(task, replace(chosen, seed=6)) != seen[0]


@TASKS
@pytest.mark.parametrize("amp", [None, "float16"])
def test_resuming_from_a_checkpoint_gives_the_same_losses(task, amp, tmp_path):
    chosen = options(amp=amp, dropout=0.2)
    whole = run(task, chosen)
    file = tmp_path / "checkpoint.pt"
    first = run(task, replace(chosen, steps=5, checkpoint=file))
    torch.randn(10, device="openreg")  # advances the generator; the checkpoint restores it
    rest = run(task, replace(chosen, checkpoint=file, resume=True))
    assert first + rest == whole


@TASKS
def test_resuming_on_the_cpu(task, tmp_path):
    file = tmp_path / "checkpoint.pt"
    whole = run(task, options(device="cpu"))
    run(task, options(steps=5, checkpoint=file))
    assert run(task, options(device="cpu", checkpoint=file, resume=True)) == pytest.approx(
        whole[5:], rel=1e-4
    )


def call(example: str, *arguments: object) -> str:
    command = [str(EXAMPLES / f"{example}.py"), "--device", "openreg", *map(str, arguments)]
    return python(*command, OMP_NUM_THREADS="1").stdout


def test_a_profile_on_the_command_line(tmp_path):
    trace = tmp_path / "trace.json"
    assert "in 6 steps" in call("image_classifier", "--amp", "--steps", 6, "--profile", trace)
    assert any("aten::" in event.get("name", "") for event in json.loads(trace.read_text())["traceEvents"])


def test_resuming_on_the_command_line(tmp_path):
    file = tmp_path / "checkpoint.pt"
    run(Repetition, options(steps=6, checkpoint=file, seed=3))
    assert "in 2 steps" in call("language_model", "--steps", 8, "--checkpoint", file, "--resume", "--seed", 3)
