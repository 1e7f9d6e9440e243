"""Shared by all tests: which device is under test, and a clean thread to test on."""

import gc
from collections.abc import Iterator

import pytest
import torch

import torch_openreg  # noqa: F401  (on a machine with a GPU, torch does not load it)

DEVICE = "openreg"


@pytest.fixture(autouse=True)
def first_device():
    """Every test begins and ends with device 0 and its default stream current."""
    yield
    torch.openreg.synchronize(0)
    torch.openreg.synchronize(1)
    torch.openreg.set_stream(torch.openreg.default_stream(1))
    torch.openreg.set_stream(torch.openreg.default_stream(0))
    assert torch.openreg.current_device() == 0


@pytest.fixture
def clean_memory():
    """For tests that count bytes: the garbage of earlier ones is gone, and nothing is cached."""
    torch.openreg.init()
    gc.collect()
    torch.openreg.empty_cache()
    torch.openreg.empty_host_cache()
    yield
    torch.openreg.empty_cache()


@pytest.fixture
def one_thread():
    """Of the CPU's kernels: the order of sums is the same each time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def device() -> str:
    return DEVICE


@pytest.fixture(params=["async", "blocking", "adversarial"])
def each_schedule(request) -> Iterator[str]:
    with torch.openreg.schedule(request.param, seed=11):
        yield request.param
        torch.openreg.synchronize()
