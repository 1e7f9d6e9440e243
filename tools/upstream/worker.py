"""Runs selected tests of one file with pytest and writes the results as JSON lines. Runs in a separate process.

python -m upstream.worker SPEC     where SPEC is a file with a `Spec` in JSON
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from upstream import compiler_tests
from upstream.device_tests import pretend_to_be_cuda, run_on_device
from upstream.distributed_tests import error_of_a_rank
from upstream.expected import matches
from upstream.results import Result
from upstream.selection import Selection

POISONED = 86  # exit status of a worker whose device no longer works
MESSAGE_LENGTH = 2000

# Error messages of torch.cuda in a PyTorch build without CUDA.
NO_CUDA = (
    "Torch not compiled with CUDA enabled",
    "requires CUDA support",
    "Tried to instantiate dummy base class",
    "Cannot initialize CUDA without",
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
    "module 'torch._C' has no attribute '_cuda_",
    "Distributed package doesn't have NCCL built in",
)


@dataclass(frozen=True)
class Spec:
    file: str  # the path of the test file
    root: str  # test ids are relative to it
    translated: bool  # a test file of torch.cuda
    compiler: bool  # a test file of torch.compile
    events: int  # the file descriptor to write to
    done: list[str] = field(default_factory=list)  # tests that have a result already
    not_run: list[str] = field(default_factory=list)  # ids and patterns
    selection: dict[str, Any] = field(default_factory=dict)


class Stream:
    """Writes events as lines of JSON. Writes nothing in forked children."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._pid = os.getpid()

    def send(self, **event: object) -> None:
        if os.getpid() == self._pid:
            os.write(self._descriptor, (json.dumps(event) + "\n").encode())


def message_of(report: pytest.TestReport) -> str:
    """The error with its location, or the reason of a skip."""
    where = report.longrepr
    if isinstance(where, tuple):
        return str(where[2]).removeprefix("Skipped: ")
    crash = getattr(where, "reprcrash", None)
    if crash is None:
        return str(where)[-MESSAGE_LENGTH:]
    return f"{error_of_a_rank(crash.message)[:MESSAGE_LENGTH]} (at {Path(crash.path).name}:{crash.lineno})"


def calls_cuda(message: str) -> bool:
    """Whether a test failed because it calls torch.cuda, which is no failure of the device."""
    return any(part in message for part in NO_CUDA)


def is_poisoned() -> bool:
    """Whether the device no longer works, so that every following test would fail."""
    import torch

    with contextlib.suppress(Exception):  # clears an asynchronous error of the failed test
        torch.accelerator.synchronize()
    try:
        return bool((torch.ones(1, device=torch.accelerator.current_accelerator()) + 1).item() != 2)
    except Exception:
        return True


class Plugin:
    """Selects tests, and sends an event when a test starts and ends."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._stream = Stream(spec.events)
        self._outcome = ("passed", "")
        self._seconds = 0.0

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._stream.send(
                event="broken", test=report.nodeid, message=str(report.longrepr)[-MESSAGE_LENGTH:]
            )

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self._spec.compiler:
            compiler_tests.count_no_kernels({getattr(item, "cls", None) for item in items})
        by_id = {item.nodeid: item for item in items}
        chosen = Selection(**self._spec.selection).select(by_id)
        done = set(self._spec.done)
        skipped = [test for test in chosen if any(matches(test, pattern) for pattern in self._spec.not_run)]
        left = [test for test in chosen if test not in done and test not in set(skipped)]
        self._stream.send(event="selected", count=len(chosen), not_run=skipped)
        items[:] = [by_id[test] for test in left]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._outcome = ("passed", "")
        self._seconds = 0.0
        self._stream.send(event="start", test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds += report.duration
        if report.failed:
            if self._outcome[0] == "passed":  # the first failure of several subtests counts
                message = message_of(report)
                skipped = calls_cuda(message) and not self._spec.translated
                self._outcome = ("skipped" if skipped else "failed", message)
        elif report.skipped and not hasattr(report, "wasxfail") and self._outcome[0] == "passed":
            self._outcome = ("skipped", message_of(report))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        result = Result(nodeid, self._outcome[0], round(self._seconds, 3), self._outcome[1])
        self._stream.send(event="result", **asdict(result))
        if result.failed and is_poisoned():
            os._exit(POISONED)


def main(path: str) -> int:
    spec = Spec(**json.loads(Path(path).read_text()))
    faulthandler.enable()
    # PyTorch's tests read the command line of the process.
    sys.argv = [spec.file]
    run_on_device()
    if spec.translated:
        pretend_to_be_cuda()
    if spec.compiler:
        compiler_tests.run_on_device(Path(spec.file))
    from torch.testing._internal import common_utils

    if hasattr(common_utils, "parse_cmd_line_args"):
        common_utils.parse_cmd_line_args()
    options = [
        "--noconftest",
        "--tb=native",
        "--capture=no",
        "-q",
        "--no-header",
        "--no-summary",
        "--disable-warnings",
    ]
    # Pytest's log handlers format every record; some tests of PyTorch log arguments without a format.
    plugins = ["no:cacheprovider", "no:faulthandler", "no:logging", "no:xdist", "no:randomly"]
    status = pytest.main(
        [
            *("-c", os.devnull, "--rootdir", spec.root, *options),
            # Pytest rewrites the assertions of these files, and would also import `distributed_test` of torch itself.
            *("-o", "python_files=test_*.py"),
            *(part for plugin in plugins for part in ("-p", plugin)),
            spec.file,
        ],
        plugins=[Plugin(spec)],
    )
    sys.stdout.flush()
    sys.stderr.flush()
    # All results are written. os._exit does not wait for threads that tests left running.
    os._exit(0 if status in (0, 1, 5) else int(status))


if __name__ == "__main__":
    main(sys.argv[1])
