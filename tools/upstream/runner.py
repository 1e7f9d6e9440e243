"""Runs one test file in worker processes. After a crash or a hang, a new worker continues with the next test."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from upstream import distributed_tests
from upstream.expected import Expected
from upstream.results import Result, Store
from upstream.selection import Selection
from upstream.suite import TestFile
from upstream.translate import translate_file
from upstream.worker import POISONED, Spec

TOOLS = Path(__file__).resolve().parent.parent
# Seconds to import a file and generate its tests; the largest file has a hundred thousand.
COLLECTION_LIMIT = 900.0
# The run of a file ends after this many workers in a row that produce no result.
MAX_WORKERS_WITHOUT_RESULT = 3

# A test that runs, or waits for a core that other programs use, may take this many times longer than the limit. While
# it mostly waits for a core, it has no limit.
BUSY_FACTOR = 6.0
BUSY_PERIOD = 5.0
BUSY_SHARE = 0.02
STARVED_SHARE = 0.5

# Set when the run is interrupted: workers are killed, and their current tests have no result.
stopping = threading.Event()


@dataclass(frozen=True)
class Options:
    tests: Path  # the `test` folder of the checkout
    build: Path  # logs, results and translated files
    selection: Selection
    expected: Expected
    limit: float  # seconds for one test
    environment: dict[str, str]


@dataclass
class Progress:
    """Progress of one file. Passed to a callback after every event."""

    selected: int = 0
    done: int = 0
    failed: int = 0
    current: str = ""


class Worker:
    """One worker process and the events that it sends. Kills its process group on exit."""

    def __init__(self, spec: Spec, tests: Path, log: Path, environment: dict[str, str]) -> None:
        self._read, write = os.pipe()
        self._buffer = b""
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump(asdict(spec) | {"events": write}, file)
        self._spec = Path(file.name)
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "upstream.worker", file.name],
                cwd=tests,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(write,),
                start_new_session=True,
            )
        os.close(write)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._signal(signal.SIGKILL)
        self.process.wait()
        os.close(self._read)
        self._spec.unlink(missing_ok=True)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def events(self, limit: Callable[[], float]) -> Iterator[dict]:
        """Yields events until the worker exits. Raises TimeoutError if there is no event for `limit()` seconds.

        A child of a test may outlive the worker and keep the pipe open, so end of file is not used to detect the exit.
        """
        last = time.monotonic()
        while True:
            ended = self.process.poll() is not None
            ready, _, _ = select.select([self._read], [], [], 0 if ended else 1.0)
            chunk = os.read(self._read, 1 << 16) if ready else b""
            if chunk:
                *lines, self._buffer = (self._buffer + chunk).split(b"\n")
                for line in lines:
                    last = time.monotonic()
                    yield json.loads(line)
            elif ended:
                return
            elif ready:  # end of file; the process is about to exit
                time.sleep(0.05)
            if stopping.is_set():
                return
            waited = time.monotonic() - last
            if waited > limit() and self._is_stuck(waited > BUSY_FACTOR * limit()):
                # On SIGABRT, faulthandler writes the stacks to the log.
                self._signal(signal.SIGABRT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(10)
                raise TimeoutError

    def _is_stuck(self, very_long: bool) -> bool:
        """Whether the worker and its children neither run nor wait for a core; after a very long time, do not wait."""
        running, waiting = cpu_seconds(self.process.pid), waiting_seconds(self.process.pid)
        time.sleep(BUSY_PERIOD)
        running = cpu_seconds(self.process.pid) - running
        waiting = waiting_seconds(self.process.pid) - waiting
        if very_long:
            return waiting < STARVED_SHARE * BUSY_PERIOD
        return running + waiting < BUSY_SHARE * BUSY_PERIOD

    def ending(self) -> str:
        """Describes how the process ended."""
        code = self.process.wait()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


def session_stats(session: int) -> Iterator[tuple[Path, list[str]]]:
    """The processes of a session that exist now: folder in /proc, and fields of `stat` after the name. Linux only."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            fields = stat.read_text().rpartition(")")[2].split()  # the name may contain spaces
            if int(fields[3]) == session:
                yield stat.parent, fields


def cpu_seconds(session: int) -> float:
    """CPU time of the processes of a session."""
    ticks = sum(int(fields[11]) + int(fields[12]) for _, fields in session_stats(session))
    return ticks / os.sysconf("SC_CLK_TCK")


def waiting_seconds(session: int) -> float:
    """Time that the threads of a session could run but waited for a core. 0 if the kernel does not count it."""
    nanoseconds = 0
    for folder, _ in session_stats(session):
        for statistics in (folder / "task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # the thread has ended
                nanoseconds += int(statistics.read_text().split()[1])
    return nanoseconds * 1e-9


def fault_message(log: Path, start: int, length: int = 2000) -> str:
    """The stacks that faulthandler wrote after the position `start`, innermost call first, or the end of the log."""
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - 100 * length))
        text = file.read().decode(errors="replace")
    _, marker, stacks = text.rpartition("Fatal Python error")
    return (marker + stacks)[:length] if marker else text[-length:]


class FileRun:
    """The run of one file. Not thread safe."""

    def __init__(
        self, file: TestFile, options: Options, store: Store, report: Callable[[Progress], None]
    ) -> None:
        self._file = file
        self._options = options
        self._store = store
        self._report = report
        self._progress = Progress()
        self._log = options.build / "logs" / f"{file.name}.log"
        self._current: str | None = None
        self._collected = False

    def run(self) -> bool:
        """Returns whether every selected test has a result."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._log.write_bytes(b"")
        root = self._options.tests
        if self._file.translated:
            root = self._options.build / "translated"
            source = self._options.tests / self._file.name
            translate_file(source, root / self._file.name, self._file.distributed)
        without_result = 0
        while without_result < MAX_WORKERS_WITHOUT_RESULT:
            before = len(self._store)
            if self._run_worker(root):
                return not stopping.is_set()
            without_result = 0 if len(self._store) > before else without_result + 1
        return False

    def _run_worker(self, root: Path) -> bool:
        """Runs the tests without a result. Returns whether the file is done."""
        spec = Spec(
            file=str(root / self._file.name),
            root=str(root),
            translated=self._file.translated and not self._file.distributed,
            compiler=self._file.compiler,
            events=-1,
            done=self._store.tests(),
            not_run=self._options.expected.not_run(),
            selection=asdict(self._options.selection),
        )
        self._current, self._collected = None, False
        start = self._log.stat().st_size
        with Worker(spec, self._options.tests, self._log, self._environment()) as worker:
            try:
                for event in worker.events(
                    lambda: self._options.limit if self._collected else COLLECTION_LIMIT
                ):
                    self._handle(event)
            except TimeoutError:
                self._lost(
                    "hung", f"no result after {self._options.limit:.0f} s\n{fault_message(self._log, start)}"
                )
                return False
            if stopping.is_set():
                return True
            ending = worker.ending()
            if worker.process.returncode == 0 and self._current is None:
                return True
            if worker.process.returncode == POISONED:
                return False
            if self._current is None and self._broken():
                return True
        self._lost("crashed", f"{ending}\n{fault_message(self._log, start)}")
        return False

    def _environment(self) -> dict[str, str]:
        """The variables of a worker. Processes that tests start inherit them."""
        folders = [TOOLS, self._options.tests]
        variables = {"CUDA_VISIBLE_DEVICES": ""}  # a test that calls torch.cuda must not run on a GPU
        if self._file.distributed:
            # The folder of the file has modules that tests import.
            file = self._options.tests / self._file.name
            folders = [distributed_tests.STARTUP, *folders, file.parent]
            variables |= distributed_tests.environment(file, BUSY_FACTOR * self._options.limit)
        variables["PYTHONPATH"] = os.pathsep.join(map(str, folders))
        return self._options.environment | variables

    def _broken(self) -> bool:
        return any(result.test == self._file.name for result in self._store)

    def _lost(self, outcome: str, message: str) -> None:
        """Records a worker that died, as a failure of the current test, or of the file if no test was running."""
        self._finish(Result(self._current or self._file.name, outcome, 0.0, message))

    def _finish(self, result: Result) -> None:
        self._store.add(result)
        self._progress.done = len(self._store)
        self._progress.failed += result.failed
        self._current = None
        self._report(self._progress)

    def _handle(self, event: dict) -> None:
        kind = event.pop("event")
        if kind == "selected":
            self._collected = True
            if event["count"]:  # left by a worker that ended before its first test
                self._store.discard(self._file.name)
            self._progress.selected = event["count"]
            known = set(self._store.tests())
            for test in event["not_run"]:
                if test not in known:
                    self._finish(Result(test, "failed", 0.0, "not run"))
        elif kind == "start":
            self._current = self._progress.current = event["test"]
        elif kind == "result":
            self._finish(Result(**event))
        elif kind == "broken":
            self._finish(Result(self._file.name, "failed", 0.0, f"cannot be imported: {event['message']}"))
        self._report(self._progress)
