"""Runs the program, and says how a run ended."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from torch_openreg._name import setting
from torch_openreg.sweep import child, server

HANDLED = "handled"
ERROR = "error"
UNREACHED = "not reached"
CRASH = "crash"
HANG = "hang"
LEAK = "leak"
WRONG = "wrong result"
UNCLEAR = "unclear error"
ENDINGS = (HANDLED, ERROR, UNREACHED, CRASH, HANG, LEAK, WRONG, UNCLEAR)
BAD = (CRASH, HANG, LEAK, WRONG, UNCLEAR)

RULE_IN_MESSAGE = re.compile(r"fault rule \d+, match \d+ of ")
FAILED_ASSERTION = re.compile(r"^(E +)?(AssertionError|assert )", re.MULTILINE)  # of a program, or of pytest
DIGEST = re.compile(r"^digest: *(.*)$", re.MULTILINE)
STACK_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in ', re.MULTILINE)


class Run(NamedTuple):
    """One run of the program."""

    code: int | None  # exit code; negative: a signal; None: it reached the time limit
    seconds: float
    output: str
    errors: str
    digest: list[str]
    processes: dict[str, dict[str, Any]]  # what child.py has written, by process name
    fired: list[str]  # lines of the program at which the rule fired; "" if unknown

    def leaked(self, clean: "Run") -> str:
        """Memory beyond that of a run without faults; empty: none."""
        for name, report in self.processes.items():
            before = clean.processes.get(name, {"device": 0, "pinned": 0})
            for kind in ("device", "pinned"):
                if report[kind] > before[kind]:
                    return f"{report[kind] - before[kind]} bytes of {kind} memory in {name}"
        return ""

    def ending(self, clean: "Run") -> str:
        if self.code is None:
            return HANG
        if self.code < 0:
            return CRASH
        if self.code == 0 and not self.fired:
            return UNREACHED
        if self.leaked(clean):
            return LEAK
        if self.code == 0:
            return HANDLED if self.digest == clean.digest else WRONG
        if RULE_IN_MESSAGE.search(self.errors + self.output):
            return ERROR
        return WRONG if FAILED_ASSERTION.search(self.errors + self.output) else UNCLEAR

    def line(self) -> str:
        """The Python line of the failed call, else of the crash or hang."""
        known = [line for line in self.fired if line]
        if known:
            return known[0]
        frames = [f"{found['file']}:{found['line']}" for found in STACK_FRAME.finditer(self.errors)]
        inside = os.path.join("site-packages", "torch")
        return next((frame for frame in frames if inside not in frame), "")


class Launcher:
    """Runs the program, one run at a time. With ``preload``, runs are forked from a process that has imported torch."""

    def __init__(self, command: list[str], preload: bool, folder: str | None = None) -> None:
        self._command = command
        self._folder = folder  # the current folder of the runs
        self._preload = preload
        self._server: subprocess.Popen[str] | None = None

    def run(self, rules: str, timeout: float) -> Run:
        with tempfile.TemporaryDirectory(prefix="sweep-") as name:
            folder = Path(name)
            environment = {setting("FAULTS"): rules, setting("SWEEP"): name}
            begin = time.monotonic()
            start = self._fork if self._preload else self._start
            code = start(folder, environment, timeout)
            output = (folder / server.OUTPUT).read_text(errors="replace")
            errors = (folder / server.ERRORS).read_text(errors="replace")
            return Run(
                code,
                time.monotonic() - begin,
                output,
                errors,
                DIGEST.findall(output),
                _reports(folder),
                _fired(folder),
            )

    def _start(self, folder: Path, environment: dict[str, str], timeout: float) -> int | None:
        """A new interpreter, in a process group of its own, so that the time limit ends its children, too."""
        # Not pipes: they would stay open if a child outlives the program.
        with open(folder / server.OUTPUT, "w") as output, open(folder / server.ERRORS, "w") as errors:
            process = subprocess.Popen(
                [sys.executable, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=os.environ | environment,
                cwd=self._folder,
                start_new_session=True,
            )
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)  # faulthandler prints the stacks
            time.sleep(server.DUMP_SECONDS)
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _fork(self, folder: Path, environment: dict[str, str], timeout: float) -> int | None:
        for name in (server.OUTPUT, server.ERRORS):
            (folder / name).touch()
        if self._server is None:
            source = f"from {server.__name__} import main; main()"
            self._server = subprocess.Popen(
                [sys.executable, "-c", source],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=self._folder,
                text=True,
            )
        assert self._server.stdin and self._server.stdout
        request = {
            "command": self._command,
            "environment": environment,
            "folder": str(folder),
            "timeout": timeout,
        }
        print(json.dumps(request), file=self._server.stdin, flush=True)
        answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process that imports torch has ended with code {self._server.wait()}")
        return json.loads(answer)

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.communicate()


def _reports(folder: Path) -> dict[str, dict[str, Any]]:
    reports = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return {report["process"]: report for report in reports}


def _fired(folder: Path) -> list[str]:
    log = folder / child.FIRED
    if not log.exists():
        return []
    return [line.split("\t")[5] for line in log.read_text().splitlines()]
