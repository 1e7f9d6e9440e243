"""A short run of `make soak`, and tests that it detects leaks and races."""

import pytest
import soak
import torch


@pytest.mark.parametrize("schedule", ["async", "adversarial"])
def test_short_soak(schedule):
    with torch.openreg.schedule(schedule, 1):
        assert soak.Soak(seconds=8, threads=4, seed=1).run() == ""


def leaks(thread: soak.Thread) -> None:
    lost.append(torch.ones(1000, device="openreg"))


def reads_too_early(thread: soak.Thread) -> None:
    """Reads a tensor on another stream without synchronization."""
    with torch.openreg.stream(thread.streams[0]):
        made = torch.zeros(1000, device="openreg:0")
        torch.openreg.current_stream().synchronize()
        made.add_(1)
    with torch.openreg.stream(thread.streams[1]):
        total = (made * 1).sum().item()
    torch.openreg.synchronize(0)
    soak.expect(total, 1000, "a sum")


lost: list[torch.Tensor] = []


def test_soak_detects_leaks(monkeypatch):
    monkeypatch.setattr(soak, "ACTORS", [leaks])
    assert "bytes of device memory were lost" in soak.Soak(seconds=0.3, threads=2, seed=1).run()
    lost.clear()


@pytest.mark.openreg_ignore("races")
def test_soak_detects_wrong_results(monkeypatch):
    monkeypatch.setattr(soak, "ACTORS", [reads_too_early])
    with torch.openreg.schedule("adversarial", 1):
        assert "a sum: found" in soak.Soak(seconds=5, threads=2, seed=1).run()


def test_soak_ignores_garbage_of_others(monkeypatch):
    monkeypatch.setattr(soak, "ACTORS", [lambda thread: None])
    cycle: list = [torch.ones(1000, device="openreg")]
    cycle.append(cycle)
    del cycle
    assert soak.Soak(seconds=0.3, threads=1, seed=1).run() == ""
