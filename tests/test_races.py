"""The race check: each seeded bug is found in every schedule, and its corrected twin is silent."""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from gpu import skip_with_cuda
from interpreter import environment
from race_programs import DEVICE, PROGRAMS, ones

pytestmark = [
    pytest.mark.kernel_view,
    pytest.mark.simulated,
    pytest.mark.host_engine,
    pytest.mark.openreg_ignore("races"),
]

# The adversarial schedule runs with these seeds; OPENREG_RACE_SEEDS=100 is the long form.
SEEDS = range(int(os.environ.get("OPENREG_RACE_SEEDS", "2")))
SCHEDULES = [("async", 0), ("blocking", 0), *(("adversarial", seed) for seed in SEEDS)]


def pins_memory(program: Callable[[bool], object]) -> bool:
    """A non-blocking copy to the host pins its result. The check sees memory that this device has pinned."""
    source = inspect.getsource(program)
    return "pin_memory" in source or 'to("cpu", non_blocking=True)' in source


FOUND = [
    pytest.param(name, marks=skip_with_cuda if pins_memory(program.run) else ())
    for name, program in PROGRAMS.items()
]


def reports(name: str, fixed: bool) -> list[torch.openreg.Race]:
    with torch.openreg.check_races(raise_error=False) as races:
        PROGRAMS[name].run(fixed)
    torch.openreg.synchronize()
    return races.reports


@pytest.mark.parametrize("name", FOUND)
def test_a_bug_is_found_in_every_schedule(name):
    for schedule, seed in SCHEDULES:
        with torch.openreg.schedule(schedule, seed):
            found = reports(name, fixed=False)
        assert len(found) == 1, (schedule, seed, *map(str, found))
        for words in PROGRAMS[name].report:
            assert words in str(found[0])
        assert "race_programs.py:" in found[0].second.line


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_corrected_program_is_silent(name):
    for schedule, seed in SCHEDULES:
        with torch.openreg.schedule(schedule, seed):
            found = reports(name, fixed=True)
        assert not found, (schedule, seed, *map(str, found))


def test_the_block_raises_at_its_end():
    expected = pytest.raises(torch.openreg.RaceError, match=r"1 race\(s\)\nrace: .*")
    with expected as error, torch.openreg.check_races():
        PROGRAMS["side_stream_reads_before_the_write"].run(False)
    (race,) = error.value.reports
    assert race.first.write and not race.second.write
    assert race.first.operator == "aten::fill_.Scalar" and race.second.operator == "aten::mul.Tensor"
    assert race.nbytes == 4000 and "race_programs.py" in race.allocated_at


def test_an_exception_of_the_block_has_precedence():
    with pytest.raises(KeyError), torch.openreg.check_races():
        PROGRAMS["side_stream_reads_before_the_write"].run(False)
        raise KeyError


def test_a_pair_of_lines_is_reported_once():
    with torch.openreg.check_races(raise_error=False) as races:
        for _ in range(3):
            PROGRAMS["side_stream_reads_before_the_write"].run(False)
            torch.openreg.synchronize()
    assert len(races.reports) == 1


def test_blocks_nest():
    with torch.openreg.check_races(raise_error=False) as outer:
        x, side = ones(), torch.openreg.Stream()
        with torch.openreg.check_races(raise_error=False) as inner, torch.openreg.stream(side):
            x.add_(1)
        torch.openreg.synchronize()
    assert len(inner.reports) == len(outer.reports) == 1
    with pytest.raises(RuntimeError, match="already active"), outer, outer:
        pass


whole_process = pytest.mark.skipif(
    os.environ.get("OPENREG_CHECK_RACES") == "1", reason="OPENREG_CHECK_RACES checks the whole process"
)


@whole_process
def test_nothing_is_checked_outside_of_a_block():
    methods = {name: getattr(torch.Tensor, name) for name in ("numpy", "tolist", "__dlpack__")}
    with torch.openreg.check_races() as races:
        assert torch.Tensor.numpy is not methods["numpy"]
    assert {name: getattr(torch.Tensor, name) for name in methods} == methods
    PROGRAMS["side_stream_reads_before_the_write"].run(False)
    assert races.reports == []


@whole_process
def test_work_from_before_the_block_is_not_checked():
    side, x = torch.openreg.Stream(), ones()
    with torch.openreg.check_races(), torch.openreg.stream(side):
        x.add_(1)
    torch.openreg.synchronize()


# ---- Silent on correct programs


def train(steps: int, non_blocking: bool = True) -> float:
    """Trains with a prefetching loader: the next batch is copied on a side stream."""
    copies = torch.openreg.Stream()
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = torch.utils.data.TensorDataset(torch.randn(8 * steps, 16))
    loader = torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True)
    losses = torch.zeros((), device=DEVICE)

    def copied(batch: list[torch.Tensor]) -> torch.Tensor:
        with torch.openreg.stream(copies):
            return batch[0].to(DEVICE, non_blocking=non_blocking)

    batches = iter(loader)
    following: torch.Tensor | None = copied(next(batches))
    while following is not None:
        torch.openreg.current_stream().wait_stream(copies)
        x = following
        x.record_stream(torch.openreg.current_stream())
        batch = next(batches, None)
        following = None if batch is None else copied(batch)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses += loss.detach()
    return losses.item()


@pytest.mark.parametrize("schedule", ["async", "blocking", "adversarial"])
def test_prefetching_training(schedule):
    with torch.openreg.schedule(schedule), torch.openreg.check_races():
        train(6)


def test_synchronizing_operators_order_the_host():
    with torch.openreg.check_races():
        x, host = ones(), torch.empty(1000, pin_memory=True)
        for wait in (
            lambda: x.sum().item(),
            lambda: x.cpu(),
            lambda: x.nonzero(),
            lambda: torch.openreg.synchronize(),
            lambda: torch.openreg.current_stream().synchronize(),
        ):
            host.copy_(x, non_blocking=True)
            wait()
            host.sum()


def test_a_query_that_returns_true_orders_the_host():
    with torch.openreg.check_races():
        x, host = ones(), torch.empty(1000, pin_memory=True)
        host.copy_(x, non_blocking=True)
        event = torch.openreg.current_stream().record_event()
        while not event.query():
            pass
        host.sum()


def test_pinned_memory_is_reused():
    with torch.openreg.check_races():
        for _ in range(5):
            x = torch.full((1000,), 2.0).pin_memory().to(DEVICE, non_blocking=True)
        torch.zeros(1000, pin_memory=True)
    assert x.sum().item() == 2000


def test_a_rejected_call_accesses_nothing():
    with torch.openreg.check_races():
        side, x, y = torch.openreg.Stream(), ones(), torch.ones(3, device=DEVICE)
        with torch.openreg.stream(side), pytest.raises(RuntimeError, match="must match the size"):
            x + y


def test_backward_of_two_streams():
    with torch.openreg.check_races():
        side = torch.openreg.Stream()
        a, b = (torch.ones(4, 4, device=DEVICE, requires_grad=True) for _ in range(2))
        side.wait_stream(torch.openreg.current_stream())
        c = a @ b
        with torch.openreg.stream(side):
            d = a @ b
        torch.openreg.current_stream().wait_stream(side)
        (c + d).sum().backward()
        assert a.grad is not None
        a.grad.sum().item()


# ---- Processes


SENDER = """
import sys, torch, torch.multiprocessing as mp

def receive(queue, fixed):
    with torch.openreg.check_races(raise_error=False) as races:
        x, side = queue.get(), torch.openreg.Stream()
        if fixed:
            side.wait_stream(torch.openreg.current_stream())
        with torch.openreg.stream(side):
            y = x * 2
        torch.openreg.synchronize()
    print(len(races.reports), *races.reports)

if __name__ == "__main__":
    fixed = sys.argv[1] == "fixed"
    context = mp.get_context("spawn")
    with torch.openreg.check_races():
        x = torch.ones(1000, device="openreg")
        if sys.argv[1] == "synchronized":
            torch.openreg.synchronize()
        queue = context.SimpleQueue()
        child = context.Process(target=receive, args=(queue, fixed))
        child.start()
        queue.put(x)
        child.join()
    sys.exit(child.exitcode)
"""


def python(program: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess:
    command = [sys.executable, *arguments] if program == "" else [sys.executable, "-c", program, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**environment(), **settings}
    )


@pytest.mark.parametrize("schedule", ["async", "blocking", "adversarial"])
@pytest.mark.parametrize(("how", "count"), [("wrong", 1), ("fixed", 0), ("synchronized", 0)])
def test_a_tensor_of_another_process(tmp_path, schedule, how, count):
    (tmp_path / "sender.py").write_text(SENDER)
    done = python("", str(tmp_path / "sender.py"), how, OPENREG_SCHEDULE=schedule)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(count)), done.stdout
    if count:
        assert "the sending process writes" in done.stdout and "aten::mul.Tensor reads" in done.stdout


COLLECTIVE = """
import sys, torch, torch.distributed as dist
dist.init_process_group("occl", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(1000, device="openreg")
with torch.openreg.check_races(raise_error=False) as races:
    work = dist.all_reduce(x, async_op=True)
    if sys.argv[1] == "fixed":
        work.wait()
    y = x + 1
work.wait()
torch.openreg.synchronize()
print(len(races.reports), *races.reports)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("schedule", ["async", "blocking", "adversarial"])
@pytest.mark.parametrize(("how", "count"), [("wrong", 1), ("fixed", 0)])
def test_a_collective_without_wait(schedule, how, count):
    done = python(COLLECTIVE, how, OPENREG_SCHEDULE=schedule)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(count)), done.stdout
    if count:
        assert "occl:all" in done.stdout and "aten::add.Tensor reads" in done.stdout


# ---- The setting

RACY = """
import torch
x, side = torch.ones(10, device="openreg"), torch.openreg.Stream()
for _ in range(3):
    with torch.openreg.stream(side):
        x + 1
"""


def test_the_setting_checks_a_process():
    done = python(RACY, OPENREG_CHECK_RACES="1")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("openreg: race: two accesses") == 1
    assert done.stderr.endswith("openreg: 1 race(s) found\n")
    assert "aten::add.Tensor reads on stream 1 of openreg:0, at <string>:6 in <module>" in done.stderr


def test_the_setting_can_be_off():
    assert python(RACY, OPENREG_CHECK_RACES="0").stderr == ""


def test_an_invalid_setting_is_an_error():
    done = python(RACY, OPENREG_CHECK_RACES="yes")
    assert done.returncode != 0 and "OPENREG_CHECK_RACES is 'yes': expected 0 or 1" in done.stderr


@pytest.mark.parametrize("example", ["demo", "image_classifier", "language_model"])
def test_examples_are_silent(example):
    options = [] if example == "demo" else ["--steps", "3"]
    done = python("", f"examples/{example}.py", *options, OPENREG_CHECK_RACES="1")
    assert done.returncode == 0, done.stderr
    assert "race" not in done.stderr
