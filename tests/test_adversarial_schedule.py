"""Schedules: asynchrony that is real, and an adversary that finds missing synchronization."""

import time

import pytest
import torch
from torch import nn

import torch_openreg._C as C

ASYNC, BLOCKING, ADVERSARIAL = 0, 1, 2


@pytest.fixture(autouse=True)
def restored():
    before = C.get_schedule()
    yield
    torch.openreg.synchronize()
    C.set_schedule(*before)


@pytest.mark.timing
def test_launching_ten_products_takes_less_than_half_of_their_time():
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
    assert min(shares) < 0.5, f"of the time that the products take, launching took {shares}"


def training_step() -> list[torch.Tensor]:
    """A training step on two streams, synchronized as it should be."""
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


def test_a_hundred_adversaries_do_not_change_a_synchronized_step():
    C.set_schedule(BLOCKING, 0)
    expected = training_step()
    C.set_schedule(ASYNC, 0)
    assert all(torch.equal(a, b) for a, b in zip(training_step(), expected, strict=True))
    for seed in range(100):
        C.set_schedule(ADVERSARIAL, seed)
        for mine, theirs in zip(training_step(), expected, strict=True):
            assert torch.equal(mine, theirs), f"seed {seed}"


def forgets_wait_stream() -> bool:
    """Whether the result is right, of a program that reads on one stream what another is still writing."""
    side = torch.openreg.Stream()
    a = torch.zeros(1000, device="openreg")
    torch.openreg.synchronize()
    with torch.openreg.stream(side):
        a.add_(1)
    return (a + 1).sum().item() == 2000


def forgets_to_synchronize() -> bool:
    """Whether the result is right, of a program that reads on the host what is still being copied."""
    a = torch.ones(1000, device="openreg")
    host = torch.zeros(1000).pin_memory()
    host.copy_(a, non_blocking=True)
    return host.sum().item() == 1000


@pytest.mark.parametrize("program", [forgets_wait_stream, forgets_to_synchronize])
def test_the_adversary_finds_missing_synchronization(program):
    C.set_schedule(BLOCKING, 0)
    assert program(), "the bug is hidden where every launch blocks"
    seen = []
    for seed in range(30):
        C.set_schedule(ADVERSARIAL, seed)
        seen.append(program())
        torch.openreg.synchronize()
    assert not all(seen), "no seed has brought out the bug"
