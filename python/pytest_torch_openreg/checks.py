"""The options of the plug-in, in a run that uses one of them. Imports torch."""

import contextlib
import re
import shlex
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from pytest_torch_openreg import device_module, leak_check

SEED = "_openreg_seed"  # the parameter of each test
IGNORABLE = {"races", "leaks"}


class Checks:
    """Registered as a plug-in by ``pytest_configure``."""

    def __init__(self, config: pytest.Config) -> None:
        option = config.option
        self._config = config
        self._module = device_module()
        self._schedule, self._seeds = _schedule_of(option)
        self._rules = _rules_of(option.openreg_faults)
        self._races: Any = getattr(self._module, "check_races", None)
        if not self._module.is_available():
            raise pytest.UsageError("the device is not available: python -m torch_openreg doctor says why")
        if option.openreg_races and self._races is None:
            raise pytest.UsageError("--openreg-races: this build has no race check")

    def pytest_report_header(self) -> str:
        sweep = ["--openreg-sweep"] if self._config.option.openreg_sweep else []
        return f"openreg: {shlex.join([*self._options(), *sweep])}"

    def _options(self, seed: int | None = None) -> list[str]:
        """The options of this run, or those that repeat one seed. Not those of the sweep."""
        option = self._config.option
        options = [f"--openreg-schedule={self._schedule}"] if self._schedule else []
        if seed is not None:
            options += [f"--openreg-seed={seed}"]
        elif self._schedule == "adversarial":
            options += [
                f"--openreg-seeds={len(self._seeds)}"
                if option.openreg_seed is None
                else f"--openreg-seed={self._seeds[0]}"
            ]
        options += ["--openreg-races"] if option.openreg_races else []
        options += ["--openreg-leaks"] if option.openreg_leaks else []
        return options + ([f"--openreg-faults={option.openreg_faults}"] if option.openreg_faults else [])

    # ---- Each test

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if len(self._seeds) > 1 and not self._config.option.openreg_sweep:
            metafunc.fixturenames.append(SEED)
            metafunc.parametrize(
                SEED, self._seeds, ids=[f"seed{seed}" for seed in self._seeds], indirect=True
            )

    @pytest.fixture
    def _openreg_seed(self, request: pytest.FixtureRequest) -> int:
        return request.param

    @pytest.fixture(autouse=True)
    def _openreg_checks(self, request: pytest.FixtureRequest) -> Iterator[None]:
        """Set up before and torn down after the other fixtures of the test's scope."""
        if self._config.option.openreg_sweep:  # the processes of the sweep check
            yield
            return
        ignored = _ignored_checks(request.node)
        with contextlib.ExitStack() as stack:
            if self._config.option.openreg_leaks and "leaks" not in ignored:
                stack.enter_context(leak_check(request))
            if self._config.option.openreg_races and "races" not in ignored:
                stack.enter_context(self._race_check(request))
            if self._schedule:
                stack.enter_context(self._module.schedule(self._schedule, self._seed_of(request.node)))
            if self._rules:
                stack.enter_context(self._module.faults(self._rules))
            yield
            for index in range(self._module.device_count()):
                self._module.synchronize(index)

    @contextlib.contextmanager
    def _race_check(self, request: pytest.FixtureRequest) -> Iterator[None]:
        failed = request.session.testsfailed
        with self._races(raise_error=False) as block:
            yield
        if block.reports and request.session.testsfailed == failed:
            pytest.fail("\n".join(map(str, block.reports)), pytrace=False)

    def _seed_of(self, item: pytest.Item) -> int:
        drawn = getattr(item, "callspec", None)
        return drawn.params.get(SEED, self._seeds[0]) if drawn else self._seeds[0]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Adds the command that repeats a failure."""
        report = yield
        if report.failed and not self._config.option.openreg_sweep:
            seed = self._seed_of(item) if self._schedule == "adversarial" else None
            command = ["pytest", _without_seed(item.nodeid, seed), *self._options(seed)]
            seen = f"It failed with seed {seed}. " if seed is not None else ""
            report.sections.append(("torch_openreg", f"{seen}To repeat it:\n{shlex.join(command)}"))
        return report

    # ---- The sweep

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if not self._config.option.openreg_sweep:
            return
        from pytest_torch_openreg.sweep import sweep_test

        def runtest(item: pytest.Item) -> Callable[[], None]:
            return lambda: sweep_test(item, self._options())

        for item in items:
            item.runtest = runtest(item)  # type: ignore[method-assign]


def _ignored_checks(item: pytest.Item) -> set[str]:
    """The arguments of the markers ``openreg_ignore`` of the test."""
    checks = {check for marker in item.iter_markers("openreg_ignore") for check in marker.args}
    if unknown := checks - IGNORABLE:
        pytest.fail(
            f"openreg_ignore: unknown checks {sorted(unknown)}; those that can be ignored are {sorted(IGNORABLE)}",
            pytrace=False,
        )
    return checks


def _schedule_of(option: Any) -> tuple[str | None, list[int]]:
    """The schedule and its seeds."""
    count, seed = option.openreg_seeds, option.openreg_seed
    if count is None and seed is None:
        return option.openreg_schedule, [0]
    if option.openreg_schedule not in (None, "adversarial"):
        raise pytest.UsageError(
            f"--openreg-seeds and --openreg-seed need the adversarial schedule, not {option.openreg_schedule}"
        )
    if count is not None and seed is not None:
        raise pytest.UsageError("--openreg-seeds and --openreg-seed exclude each other")
    if (count is not None and count < 1) or (seed is not None and not 0 <= seed < 1 << 64):
        raise pytest.UsageError(
            "--openreg-seeds needs a number from 1, and --openreg-seed one from 0 to 2**64 - 1"
        )
    return "adversarial", list(range(count)) if seed is None else [seed]


def _rules_of(path: str | None) -> list[dict[str, Any]]:
    from torch_openreg import _fault_rules

    if not path:
        return []
    try:
        rules = _fault_rules.read(path)
        _fault_rules.as_fields(rules)
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"--openreg-faults: {error}") from None
    return rules


def _without_seed(nodeid: str, seed: int | None) -> str:
    """The name of the test in a run with one seed, which is not a parameter."""
    name = f"seed{seed}"
    nodeid = nodeid.replace(f"[{name}-", "[").replace(f"-{name}-", "-")
    return re.sub(rf"(\[|-){name}\]$", lambda found: "" if found[1] == "[" else "]", nodeid)
