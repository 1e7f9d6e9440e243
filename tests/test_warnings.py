"""Operators warn at the call, on the calling thread, as often as on the CPU, on launch cache hits and misses."""

import contextlib
import warnings

import pytest
import torch
from blocked_stream import held
from captures import capture
from interpreter import execute

DEVICE = "openreg"


def emitted(call, *arguments) -> list[tuple[type, str]]:
    """Warnings that ``call`` emits, without the location in PyTorch's source."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments)
    return [(w.category, str(w.message).split(" (Triggered internally")[0]) for w in caught]


def arange(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    numel = torch.Size(shape).numel()
    return torch.arange(numel, device=device, dtype=dtype).reshape(shape)


def uint8_tensor(device: str, *numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, device=device, dtype=torch.uint8)


def assign(device: str) -> None:
    arange(device, 4)[uint8_tensor(device, 1, 0, 1, 0)] = arange(device, 2)


def scatter(device: str) -> None:
    with contextlib.suppress(RuntimeError):  # warns, then raises
        arange(device, 4).masked_scatter_(uint8_tensor(device, 1, 0, 1, 0), arange(device, 4))


def expanded(device: str) -> torch.Tensor:
    return torch.ones(1, device=device).expand(4)


WARN = {
    "var of one": lambda d: arange(d, 1).var(),
    "std of one": lambda d: arange(d, 1).std(),
    "var of rows": lambda d: arange(d, 3, 2).var(dim=1, correction=2),
    "var of rows, negative": lambda d: arange(d, 3, 2).var(dim=-1, correction=5),
    "var of few, all dims": lambda d: torch.var(arange(d, 3, 2), correction=6),
    "std of rows, half": lambda d: arange(d, 3, 2, dtype=torch.float16).std(dim=1, correction=2),
    "var of an empty tensor": lambda d: arange(d, 0).var(),
    "var_mean": lambda d: torch.var_mean(arange(d, 3, 1), dim=1),
    "std_mean": lambda d: torch.std_mean(arange(d, 3, 1), dim=1, keepdim=True),
    "var, out": lambda d: torch.var(arange(d, 3, 1), dim=1, out=torch.empty(3, device=d)),
    "a large var": lambda d: arange(d, 500, 500).var(dim=1, correction=500),
    "index of uint8": lambda d: arange(d, 4)[uint8_tensor(d, 1, 0, 1, 0)],
    "assignment with a uint8 mask": assign,
    "masked_scatter_ of uint8": scatter,
    "index_fill_ of expanded": lambda d: expanded(d).index_fill_(0, torch.tensor([1], device=d), 2.0),
    "random_ beyond half": lambda d: torch.empty(4, device=d, dtype=torch.float16).random_(0, 4096),
    "an output that grows": lambda d: torch.add(arange(d, 3), 1, out=torch.empty(2, device=d)),
    "a large output that grows": lambda d: torch.add(arange(d, 500, 500), 1, out=torch.empty(2, device=d)),
    "an output that shrinks": lambda d: torch.mm(
        arange(d, 2, 2), arange(d, 2, 2), out=torch.empty(9, device=d)
    ),
    "a range into another size": lambda d: torch.arange(5, out=torch.empty(2, device=d, dtype=torch.int64)),
    "a range into its size": lambda d: torch.arange(5, out=torch.empty(5, device=d, dtype=torch.int64)),
    "an empty output": lambda d: torch.add(arange(d, 3), 1, out=torch.empty(0, device=d)),
    "no warning": lambda d: arange(d, 3).var() + arange(d, 3, 2).var(dim=1, correction=1).sum(),
    "a bool mask": lambda d: arange(d, 4)[uint8_tensor(d, 1, 0, 1, 0).bool()],
    "random_ within half": lambda d: torch.empty(4, device=d, dtype=torch.float16).random_(0, 1024),
}


@pytest.mark.parametrize("name", WARN)
def test_warnings_are_emitted_at_every_call(name, each_schedule):
    expected = emitted(WARN[name], "cpu")
    assert [emitted(WARN[name], DEVICE) for _ in range(4)] == [expected] * 4


ONCE = {
    "where of uint8": "torch.where(torch.ones(3, device=d, dtype=torch.uint8), torch.ones(3, device=d), torch.ones(3, device=d))",
    "index_reduce": "torch.ones(3, device=d).index_reduce(0, torch.tensor([1], device=d), torch.ones(1, device=d), 'prod')",
    "searchsorted": "torch.searchsorted(torch.arange(4.0, device=d), torch.ones(3, 2, device=d).t())",
    "complex to real": "torch.ones(3, dtype=torch.complex64, device=d).to(torch.float32)",
    "complex into real": "torch.ones(3, device=d).copy_(torch.ones(3, dtype=torch.complex64, device=d))",
    "complex half": "torch.empty(3, dtype=torch.complex32, device=d)",
    "scatter": "torch.ones(3, device=d).scatter(0, torch.tensor([1], device=d), torch.ones(1, device=d), reduce='add')",
}


@pytest.mark.parametrize("name", ONCE)
def test_once_only_warnings_are_emitted_at_the_first_call(name):
    """A later call on the CPU does not warn again: it is the same warning."""
    execute(f"""
        import warnings, torch

        def emitted(d):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                {ONCE[name]}
            return len(caught)

        torch.ones(3, device="openreg")
        assert [emitted(d) for d in ("openreg", "openreg", "openreg", "cpu")] == [1, 0, 0, 0]
        torch.openreg.synchronize()
        torch.set_warn_always(True)
        assert [emitted(d) for d in ("cpu", "openreg", "openreg")] == [1, 1, 1]
    """)


def test_operator_is_launched_after_its_once_only_warning():
    with torch.openreg.schedule("async"):  # the blocking schedule launches nothing
        boundaries, values = arange(DEVICE, 4), arange(DEVICE, 5, 3).t()
        for _ in range(3):
            torch.searchsorted(boundaries, values)
        with held(torch.openreg.current_stream()):
            torch.searchsorted(boundaries, values)  # would hang if it synchronized
            assert not torch.openreg.current_stream().query()


def test_warning_location_is_the_callers_file():
    with pytest.warns(UserWarning, match="degrees of freedom") as caught:
        torch.ones(1, device=DEVICE).var()
    assert caught[0].filename == __file__


def test_operators_that_warn_can_be_captured(each_schedule):
    a = arange(DEVICE, 3, 2)
    graph, result = capture(lambda: a.var(dim=1, correction=2))
    graph.replay()
    assert result.shape == (3,)
    torch.openreg.synchronize()
