"""The pytest plug-in of torch_openreg: options and fixtures that find bugs. See docs/guide/finding_bugs.md.

It is a package of its own, since pytest imports it in every run, and an import of ``torch_openreg`` imports torch. Without
an option or fixture of the plug-in, nothing else is imported.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

SCHEDULES = ("async", "blocking", "adversarial")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("torch_openreg", "torch_openreg: bugs of programs that use the device")
    group.addoption("--openreg-schedule", choices=SCHEDULES, help="the schedule of the device")
    group.addoption(
        "--openreg-seeds",
        type=int,
        metavar="N",
        help="run each test under the adversarial schedule with the seeds 0 to N-1",
    )
    group.addoption("--openreg-seed", type=int, metavar="SEED", help="the same with one seed")
    group.addoption("--openreg-races", action="store_true", help="fail tests that have races")
    group.addoption("--openreg-leaks", action="store_true", help="fail tests that leave device memory in use")
    group.addoption(
        "--openreg-faults", metavar="FILE", help="apply the fault rules of a JSON file to each test"
    )
    group.addoption(
        "--openreg-sweep",
        action="store_true",
        help="run each test once for each of its runtime calls, with that call failing, in other processes",
    )
    group.addoption(
        "--openreg-sweep-sample", type=int, default=0, metavar="K", help="at most K calls of each function"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "openreg_ignore(*checks): a test with races or leaks on purpose: ignore 'races', 'leaks'"
    )
    asks = ("schedule", "seeds", "seed", "races", "leaks", "faults", "sweep")
    values = [getattr(config.option, f"openreg_{name}") for name in asks]
    if any(value is not None and value is not False for value in values):
        from pytest_torch_openreg.checks import Checks

        config.pluginmanager.register(Checks(config), "openreg_checks")


def device_module() -> Any:
    """``torch.openreg``, or its placeholder, whose use raises the cause."""
    from torch_openreg import _loader

    return _loader.load()


@contextlib.contextmanager
def leak_check(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test at its end if it has passed and left memory in use."""
    module = device_module()
    failed = request.session.testsfailed
    with module.check_leaks(raise_error=False) as block:
        yield
        module.synchronize()
        request.node.funcargs.clear()  # values of fixtures, which have been torn down before
    if block.leaks and request.session.testsfailed == failed:
        pytest.fail(str(module.LeakError(block.leaks)), pytrace=False)


@pytest.fixture
def openreg_device() -> Iterator[Any]:
    """The first device. After the test, all devices are synchronized, and device 0 and the default streams are current."""
    module = device_module()
    module.init()
    import torch

    from torch_openreg._name import DEVICE_NAME

    yield torch.device(DEVICE_NAME, 0)
    for index in reversed(range(module.device_count())):
        module.synchronize(index)
        module.set_stream(module.default_stream(index))


@pytest.fixture
def no_sync() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """``with no_sync():`` fails the test if an operator inside the block synchronizes."""
    return device_module().assert_no_sync


@pytest.fixture
def no_leak(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test if it leaves device memory in use, with the lines that allocated it."""
    with leak_check(request):
        yield


@pytest.fixture
def faults() -> Iterator[Callable[[Any], Any]]:
    """``faults([{...}])`` applies fault rules until the end of the test. Lost devices are reset there."""
    module = device_module()
    with contextlib.ExitStack() as stack:
        yield lambda rules: stack.enter_context(module.faults(rules))
    for index in range(module.device_count()):
        module.reset(index)
