"""The sweep of one test: each of its runtime calls fails in a process of its own."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from torch_openreg.sweep import Options, SweepError, report, sweep
from torch_openreg.sweep.program import BAD

PROGRAM = os.path.join(os.path.dirname(__file__), "program", "run_tests.py")


def sweep_test(item: pytest.Item, options: list[str]) -> None:
    """Fails the test if one of the runs ends badly. ``options``: those of the plug-in for the runs."""
    config = item.config
    arguments = [
        item.nodeid,
        f"--rootdir={config.rootpath}",
        "-q",
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
    ]
    arguments += ["-c", str(config.inipath)] if config.inipath else []
    chosen = Options(sample=config.option.openreg_sweep_sample, preload=True, folder=str(config.rootpath))
    try:
        _, results = sweep([PROGRAM, *arguments, *options], chosen, _silent)
    except SweepError as error:
        pytest.fail(str(error), pytrace=False)
    endings = Counter(result.ending for result in results)
    summary = ", ".join(f"{count} {ending}" for ending, count in endings.items())
    item.add_report_section("call", "torch_openreg", f"{len(results)} calls were failed: {summary}")
    program = ["-m", "pytest", item.nodeid, *options]
    bad = [report.describe(result, program) for result in results if result.ending in BAD]
    if bad:
        pytest.fail("\n".join([f"{len(results)} calls were failed: {summary}", *bad]), pytrace=False)


@contextlib.contextmanager
def _silent(total: int, title: str) -> Iterator[Callable[[], None]]:
    yield lambda: None
