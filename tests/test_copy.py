"""Copies: dtypes, layouts, devices. Those with pinned memory are in test_pinned_memory.py."""

import pytest
import torch

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_copies_convert_dtypes(source, target):
    cpu = torch.arange(6).to(source)
    for made in (cpu.to("openreg").to(target), cpu.to("openreg", target), cpu.to(target).to("openreg")):
        assert made.dtype == target and made.is_openreg
        assert torch.equal(made.cpu(), cpu.to(target))


def test_copies_of_every_layout():
    cpu = torch.randn(4, 5, 6)
    for view in (
        cpu,
        cpu.transpose(0, 2),
        cpu[::2, 1:, ::3],
        cpu.expand(2, 4, 5, 6),
    ):
        there = view.to("openreg")
        assert torch.equal(there.cpu(), view)
        target = torch.zeros(view.shape, device="openreg").transpose(0, 1)
        target.copy_(view.transpose(0, 1))
        assert torch.equal(target.transpose(0, 1).cpu(), view)
        back = torch.empty(view.shape).transpose(0, 1)
        back.copy_(there.transpose(0, 1))
        assert torch.equal(back.transpose(0, 1), view)


def test_copies_between_devices():
    cpu = torch.randn(100, 100)
    there = cpu.to("openreg")
    other = there.to("openreg:1")
    assert other.device.index == 1 and torch.equal(other.cpu(), cpu)
    other.t().copy_(there)
    assert torch.equal(other.cpu(), cpu.t())
    assert torch.equal(there.half().to("openreg:1").float().cpu(), cpu.half().float())


def test_copies_of_conjugate_views():
    cpu = torch.randn(4, dtype=torch.complex64)
    there = cpu.to("openreg")
    assert torch.equal(there.conj().cpu(), cpu.conj())
    assert torch.equal(there.conj().imag.cpu(), cpu.conj().imag)
    assert torch.equal((there.conj() @ there).cpu(), cpu.conj() @ cpu)


@pytest.mark.parametrize("view", [torch.conj, torch._neg_view])
def test_copies_between_devices_honor_conjugate_and_negative_views(view):
    source = torch.tensor([1 + 2j, 3 - 4j])
    target = torch.empty(2, dtype=torch.cfloat, device="openreg:1")
    target.copy_(view(source.to("openreg:0")))
    assert torch.equal(target.cpu(), view(source).resolve_conj().resolve_neg())


PLACES = {
    "to_device": ("openreg:0", lambda source: source),
    "pinned_to_device": ("openreg:0", lambda source: source.pin_memory()),
    "within_device": ("openreg:0", lambda source: source.to("openreg:0")),
    "between_devices": ("openreg:0", lambda source: source.to("openreg:1")),
    "to_host": ("cpu", lambda source: source.to("openreg:0")),
}
each_place = pytest.mark.parametrize("place", PLACES)
each_blocking = pytest.mark.parametrize("non_blocking", [False, True])


@each_place
@each_blocking
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("target", "source"),
    [((4,), (1,)), ((4,), ()), ((3, 4), (4,)), ((3, 4), (1, 4)), ((3, 4), (3, 1)), ((2, 3, 4), (3, 1))],
)
def test_copies_broadcast(place, non_blocking, dtype, target, source):
    device, put = PLACES[place]
    values = torch.randn(source).to(dtype)
    # Followed by elements that a copy of too many bytes would change.
    memory = torch.zeros(100, device=device)
    part = memory[: torch.Size(target).numel()].view(target)
    part.copy_(put(values), non_blocking=non_blocking)
    torch.openreg.synchronize("openreg:0")
    torch.openreg.synchronize("openreg:1")
    assert torch.equal(part.cpu(), values.expand(target).float())
    assert not memory[part.numel() :].any()


@each_place
@each_blocking
@pytest.mark.parametrize(
    ("target", "source"), [((4,), (3,)), ((4,), (8,)), ((4,), (0,)), ((3, 4), (4, 3)), ((4,), (1, 4))]
)
def test_copies_of_other_sizes_are_refused(place, non_blocking, target, source):
    device, put = PLACES[place]
    there = torch.zeros(target, device=device)
    with pytest.raises(RuntimeError, match=r"The size of tensor a|doesn't match the broadcast shape"):
        there.copy_(put(torch.ones(source)), non_blocking=non_blocking)
    torch.openreg.synchronize()
    assert not there.cpu().any()
