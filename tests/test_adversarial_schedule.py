"""Launches are asynchronous, and the adversarial schedule exposes missing synchronization."""

import time

import pytest
import torch
from torch import nn

import torch_openreg._C as C

ASYNC, BLOCKING, ADVERSARIAL = 0, 1, 2


@pytest.fixture(autouse=True)
def restore_schedule():
    before = C.get_schedule()
    yield
    torch.openreg.synchronize()
    C.set_schedule(*before)


@pytest.mark.timing
def test_ten_matmuls_launch_in_less_than_half_of_their_run_time():
    a = torch.randn(1500, 1500, device="openreg")
    a @ a
    torch.openreg.synchronize()
    shares = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(10):
            a @ a
        launched = time.perf_counter() - start
        torch.openreg.synchronize()
        shares.append(launched / (time.perf_counter() - start))
    assert min(shares) < 0.5, f"launch time / run time: {shares}"


def training_step() -> list[torch.Tensor]:
    """A correctly synchronized training step on two streams."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Dropout(0.2), nn.Linear(32, 4)).openreg()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    side = torch.openreg.Stream()
    host = torch.linspace(-1, 1, 128).reshape(8, 16).pin_memory()
    for _ in range(2):
        with torch.openreg.stream(side):
            data = host.to("openreg", non_blocking=True)
        torch.openreg.current_stream().wait_stream(side)
        data.record_stream(torch.openreg.current_stream())
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


def test_a_synchronized_step_is_equal_for_100_adversarial_seeds():
    C.set_schedule(BLOCKING, 0)
    expected = training_step()
    C.set_schedule(ASYNC, 0)
    assert all(torch.equal(a, b) for a, b in zip(training_step(), expected, strict=True))
    for seed in range(100):
        C.set_schedule(ADVERSARIAL, seed)
        for mine, theirs in zip(training_step(), expected, strict=True):
            assert torch.equal(mine, theirs), f"seed {seed}"


def without_wait_stream() -> bool:
    """Reads on one stream while another stream still writes. Returns whether the result is correct."""
    side = torch.openreg.Stream()
    a = torch.zeros(1000, device="openreg")
    torch.openreg.synchronize()
    with torch.openreg.stream(side):
        a.add_(1)
    return (a + 1).sum().item() == 2000


def without_synchronize() -> bool:
    """Reads on the host while the copy is pending. Returns whether the result is correct."""
    a = torch.ones(1000, device="openreg")
    host = torch.zeros(1000).pin_memory()
    host.copy_(a, non_blocking=True)
    return host.sum().item() == 1000


@pytest.mark.openreg_ignore("races")
@pytest.mark.parametrize("program", [without_wait_stream, without_synchronize])
def test_adversarial_schedule_exposes_missing_synchronization(program):
    C.set_schedule(BLOCKING, 0)
    assert program(), "the blocking schedule must hide the bug"
    seen = []
    for seed in range(30):
        C.set_schedule(ADVERSARIAL, seed)
        seen.append(program())
        torch.openreg.synchronize()
    assert not all(seen), "no seed exposed the bug"
