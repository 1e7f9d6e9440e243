"""Runs PyTorch's tests on the device and compares the failures with the expected ones.

    python -m upstream CHECKOUT                 every test, except those of torch.compile and torch.distributed
    python -m upstream CHECKOUT inductor dynamo the tests of torch.compile
    python -m upstream CHECKOUT distributed     the tests of torch.distributed; or of a folder, as distributed/tensor
    python -m upstream CHECKOUT --short         a fixed sample of each file; takes minutes
    python -m upstream CHECKOUT --shard 2/5     the second of five parts
    python -m upstream CHECKOUT test_nn.py      one file

CHECKOUT is a PyTorch source folder of the same version as the installed torch. The exit status is 1 if a test fails
without a known reason, or if an expected failure passes.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from upstream import report, summary
from upstream.expected import Expected, judge
from upstream.results import Result, Store
from upstream.runner import FileRun, Options, Progress, stopping
from upstream.selection import Selection, parse_shard
from upstream.suite import TestFile, all_files, choose

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLE = 30


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="upstream", description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a PyTorch source folder")
    parser.add_argument(
        "files",
        nargs="*",
        help="test files or folders, relative to the test folder; default: all but the distributed ones",
    )
    parser.add_argument("--short", action="store_true", help=f"a fixed sample of {SAMPLE} tests of each file")
    parser.add_argument("--shard", type=parse_shard, default=(0, 1), metavar="I/N", help="part I of N")
    parser.add_argument("--match", default="", help="only tests whose ids match this glob pattern")
    parser.add_argument("--jobs", type=int, default=1, help="number of files to run in parallel")
    parser.add_argument(
        "--limit", type=float, default=300, help="timeout of one test in seconds; default: 300"
    )
    parser.add_argument("--resume", action="store_true", help="keep existing results and run the other tests")
    parser.add_argument(
        "--failed", action="store_true", help="like --resume; run tests that failed without a reason again"
    )
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build" / "upstream")
    parser.add_argument("--expected", type=Path, default=REPOSITORY / "tests/upstream/expected_failures.toml")
    parser.add_argument("--summary", type=Path, default=REPOSITORY / "tests/upstream/summary.json")
    parser.add_argument(
        "--page", type=Path, help="add complete files and shards to the summary, and write the page of it"
    )
    parser.add_argument("--judge", action="store_true", help="run nothing; only compare existing results")
    return parser.parse_args()


def chosen_files(options: argparse.Namespace) -> list[TestFile]:
    tests = options.checkout / "test"
    if not tests.is_dir():
        sys.exit(f"{tests} is not a folder; CHECKOUT is a PyTorch source folder of the installed version")
    return choose(tests, options.files)


def run_all(files: list[TestFile], stores: dict[str, Store], options: Options, jobs: int) -> set[str]:
    """Returns the names of the files of which every selected test has a result."""
    complete: set[str] = set()
    columns = [TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn()]
    with (
        Bars(*columns, TextColumn("{task.fields[state]}"), console=Console(stderr=True)) as bars,
        ThreadPoolExecutor(jobs) as pool,
    ):
        overall = bars.add_task("files", total=len(files), state="")

        def run(file: TestFile) -> None:
            task = bars.add_task(file.name, total=None, state="collecting")

            def show(progress: Progress) -> None:
                state = f"{progress.failed} failed" if progress.failed else ""
                bars.update(task, total=progress.selected, completed=progress.done, state=state)

            if FileRun(file, options, stores[file.name], show).run():
                complete.add(file.name)
            bars.update(task, visible=False)
            bars.advance(overall)

        try:
            for done in [pool.submit(run, file) for file in files]:
                done.result()
        except BaseException:
            stopping.set()
            pool.shutdown(cancel_futures=True)
            raise
    return complete


def update_page(
    given: argparse.Namespace, done: dict[str, Store], selection: Selection, expected: Expected
) -> None:
    import torch

    known = summary.load(given.summary)
    version = torch.__version__.partition("+")[0]
    for name, store in done.items():
        results = (result for result in store if selection.in_shard(result.test))
        counts = summary.count(results, expected, version)
        known[name] = summary.record(known.get(name, {}), selection.part, counts)
    summary.save(given.summary, known)
    tests = given.checkout / "test"
    suite = [file.name for file in all_files(tests)]
    given.page.write_text(report.page(suite, known, expected))


def show(failures: list[Result], passes: list[str], console: Console) -> None:
    for result in failures:
        console.print(f"[red]{result.outcome}[/red] {escape(result.test)}")
        console.print(f"    {escape(result.message.strip().splitlines()[0][:300] if result.message else '')}")
    for test in passes:
        console.print(f"[red]passes, but is an expected failure:[/red] {escape(test)}")


def main() -> int:
    given = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, so that workers are killed
    shard, shards = given.shard
    selection = Selection(SAMPLE if given.short else 0, shard, shards, given.match)
    expected = Expected.load(given.expected, os.environ.get("OPENREG_SCHEDULE", ""))
    files = chosen_files(given)
    stores = {file.name: Store(given.build / "results" / f"{file.name}.jsonl") for file in files}
    done = set(stores)
    if not given.judge:
        for store in stores.values():
            if given.failed:
                store.discard(*(result.test for result in judge(store, expected, frozenset()).new_failures))
            elif not given.resume:
                store.clear()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
        tests = given.checkout.resolve() / "test"
        options = Options(tests, given.build.resolve(), selection, expected, given.limit, environment)
        done = run_all(files, stores, options, given.jobs)
    complete = frozenset(done if selection.complete else ())
    verdict = judge((result for store in stores.values() for result in store), expected, complete)
    console = Console()
    show(verdict.new_failures, verdict.passes, console)
    if given.page:
        whole = set() if given.judge or not selection.whole_shard else done
        update_page(given, {name: stores[name] for name in whole}, selection, expected)
    totals = summary.count((result for store in stores.values() for result in store), expected)
    console.print(
        f"{totals.passed} passed, {totals.explained} failed with a reason, {len(verdict.new_failures)} without,"
        f" {len(verdict.passes)} expected failures passed, {totals.skipped} skipped"
    )
    incomplete = sorted(stores.keys() - done)
    for name in incomplete:
        console.print(f"[red]ended before its last test:[/red] {escape(name)}")
    return 0 if verdict.good and not incomplete else 1


if __name__ == "__main__":
    sys.exit(main())
