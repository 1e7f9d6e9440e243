"""Fixtures of all tests."""

import functools
import gc
from collections.abc import Iterator

import pytest
import torch

import torch_openreg  # noqa: F401  (`import torch` does not load it on a machine with a GPU)
from torch_openreg._torch_versions import HAS_GRAPHS

DEVICE = "openreg"


# What tests of graphs raise if torch has no graphs.
NO_GRAPHS = ("graphs need torch 2.13", "no attribute 'Graph'", "no attribute 'is_capturing'")
# What tests with two devices raise if there is one, and those of the schedules if the driver has one.
ONE_DEVICE = (
    "device index 1 is out of range: there are 1 devices",
    "index 1 is out of range; there are 1 devices",
)
ONE_SCHEDULE = "supports only the schedule async"


def missing_feature(error: BaseException) -> str | None:
    """The feature that torch or the driver does not have, if the test failed for want of it."""
    text = str(error)
    if not HAS_GRAPHS and any(part in text for part in NO_GRAPHS):
        return f"torch {torch.__version__} has no graphs"
    if any(part in text for part in ONE_DEVICE):
        return "there is one device"
    return "the driver has one schedule" if ONE_SCHEDULE in text else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    return (yield from skip_without_feature())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    return (yield from skip_without_feature())


def skip_without_feature() -> Iterator[None]:
    """Skips tests of graphs before torch 2.13, and those for which the driver has too few devices or schedules."""
    try:
        return (yield)
    except BaseException as error:
        if reason := missing_feature(error):
            pytest.skip(reason)
        raise


@pytest.fixture(autouse=True)
def first_device():
    """After every test: synchronizes all devices, and makes device 0 and the default streams current."""
    yield
    for index in reversed(range(torch.openreg.device_count())):
        torch.openreg.synchronize(index)
        torch.openreg.set_stream(torch.openreg.default_stream(index))
    assert torch.openreg.current_device() == 0


@pytest.fixture
def clean_memory():
    """For tests that count bytes: collects the garbage of earlier tests and empties the caches."""
    torch.openreg.init()
    gc.collect()
    torch.openreg.empty_cache()
    torch.openreg.empty_host_cache()
    yield
    torch.openreg.empty_cache()


@functools.cache
def start_autograd_threads() -> None:
    """Each autograd thread has a number of CPU threads of its own: the process's number when the thread starts."""
    torch.ones(1, device=DEVICE, requires_grad=True).sum().backward()


@pytest.fixture
def one_thread():
    """Runs CPU kernels on one thread, so that the order of summation is always the same."""
    before = torch.get_num_threads()
    start_autograd_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def device() -> str:
    return DEVICE


@functools.cache
def has_schedules() -> bool:
    try:
        with torch.openreg.schedule("blocking"):
            return True
    except RuntimeError:
        return False


@pytest.fixture(params=["async", "blocking", "adversarial"])
def each_schedule(request) -> Iterator[str]:
    if request.param != "async" and not has_schedules():
        pytest.skip("the driver has only the asynchronous schedule")
    with torch.openreg.schedule(request.param, seed=11):
        yield request.param
        torch.openreg.synchronize()
