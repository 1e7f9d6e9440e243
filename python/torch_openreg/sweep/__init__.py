"""``python -m torch_openreg sweep script.py``: fails each runtime call of a program, one per run, and reports the endings.

The first run counts the calls. Then each run fails one call with an error that is plausible for it. The program should
handle the error or end with an exception that names it. A crash, a hang, a leak of device memory and a wrong result are
bad endings. A program that prints ``digest: ...`` is checked for wrong results: the line must be that of the first run.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import queue
import shlex
import sys
from collections.abc import Callable
from typing import NamedTuple

from torch_openreg.sweep import plan, report
from torch_openreg.sweep.program import BAD, Launcher, Run

HELP = "fail each runtime call of a program, one per run, and report crashes, hangs, leaks and wrong results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="programs that run at the same time"
    )
    parser.add_argument(
        "--call", default="*", metavar="PATTERN", help="only calls of functions with such names: 'orMemcpy*'"
    )
    parser.add_argument(
        "--sample", type=int, default=0, metavar="K", help="at most K calls of each function; default: all"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--timeout",
        type=float,
        help="seconds of a run; default: 10 times the first run, at least 60, and twice as much in a second try",
    )
    parser.add_argument(
        "--action",
        choices=plan.ACTIONS,
        default="plausible",
        help="what happens: an error of the call (default), work that fails later, or a lost device",
    )
    parser.add_argument(
        "--preload",
        action="store_true",
        help="import torch once and fork for each run: faster, but the program cannot change settings of the import",
    )
    parser.add_argument("--json", metavar="FILE", help="writes the results as JSON")
    parser.add_argument("script", help="a Python program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")


class SweepError(Exception):
    """The program cannot be swept."""


class Options(NamedTuple):
    """Those of the command line."""

    action: str = "plausible"
    pattern: str = "*"
    sample: int = 0
    seed: int = 0
    jobs: int = 1
    timeout: float | None = None
    preload: bool = False
    folder: str | None = None  # the current folder of the runs


def run(arguments: argparse.Namespace) -> int:
    if not os.path.exists(arguments.script):
        print(f"{arguments.script} does not exist", file=sys.stderr)
        return 2
    command = [arguments.script, *arguments.arguments]
    options = Options(
        arguments.action,
        arguments.call,
        arguments.sample,
        arguments.seed,
        arguments.jobs,
        arguments.timeout,
        arguments.preload,
    )
    try:
        clean, results = sweep(command, options, report.progress)
    except SweepError as error:
        print(error, file=sys.stderr)
        return 2
    report.print_table(results, clean, command)
    report.print_coverage(results, clean, options.action)
    if arguments.json:
        report.write_json(arguments.json, results, clean, command)
    return 1 if any(result.ending in BAD for result in results) else 0


Progress = Callable[[int, str], contextlib.AbstractContextManager[Callable[[], None]]]


def sweep(command: list[str], options: Options, progress: Progress) -> tuple[Run, list[report.Result]]:
    """The run without faults, and one run for each call. Raises a SweepError."""
    launchers = [Launcher(command, options.preload, options.folder)]
    try:
        clean = launchers[0].run(json.dumps(plan.counting_rules()), options.timeout or 3600)
        if clean.code != 0:
            raise SweepError(
                f"{clean.output}{clean.errors}\n{shlex.join(command)} failed without faults: exit code {clean.code}"
            )
        counts = {name: process["counts"] for name, process in clean.processes.items() if process["counts"]}
        cases = plan.cases(counts, options.action, options.sample, options.seed, options.pattern)
        if not cases:
            raise SweepError(f"{shlex.join(command)} makes no such call that can fail")
        jobs = max(1, min(options.jobs, len(cases)))
        launchers += [Launcher(command, options.preload, options.folder) for _ in range(jobs - 1)]
        with progress(len(cases), f"{len(cases)} runs of {shlex.join(command)}") as advance:
            return clean, _run_all(launchers, cases, _timeouts(options, clean), advance, clean)
    finally:
        for launcher in launchers:
            launcher.close()


def _timeouts(options: Options, clean: Run) -> list[float]:
    """A busy machine is slow, so a hang is confirmed by a second try, unless the caller knows the limit."""
    if options.timeout:
        return [options.timeout]
    first = max(60.0, 10 * clean.seconds)
    return [first, 2 * first]


def _run_all(
    launchers: list[Launcher],
    cases: list[plan.Case],
    timeouts: list[float],
    advance: Callable[[], None],
    clean: Run,
) -> list[report.Result]:
    free = queue.SimpleQueue[Launcher]()
    for launcher in launchers:
        free.put(launcher)

    def one(case: plan.Case) -> report.Result:
        launcher = free.get()
        try:
            for timeout in timeouts:
                done = launcher.run(case.setting(), timeout)
                if done.code is not None:
                    break
        finally:
            free.put(launcher)
        advance()
        return report.Result(case, done.ending(clean), done.line(), done.leaked(clean), done.errors[-4000:])

    with concurrent.futures.ThreadPoolExecutor(max_workers=len(launchers)) as pool:
        return list(pool.map(one, cases))
