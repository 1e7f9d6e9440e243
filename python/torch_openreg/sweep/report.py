"""The results of a sweep: progress, table, JSON."""

import contextlib
import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from torch_openreg._name import setting
from torch_openreg.sweep.plan import Case, can_fail
from torch_openreg.sweep.program import BAD, ENDINGS, UNREACHED, Run


class Result(NamedTuple):
    case: Case
    ending: str
    line: str  # of the program; "" if unknown
    leak: str
    errors: str  # the end of the standard error output

    def command(self, program: list[str]) -> str:
        """The command that repeats the run."""
        return f"{setting('FAULTS')}={shlex.quote(self.case.setting())} python {shlex.join(program)}"


@contextlib.contextmanager
def progress(total: int, title: str) -> Iterator[Callable[[], None]]:
    """A progress bar on the standard error output; lines if it is not a terminal or rich is not installed."""
    try:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
    except ImportError:
        yield _lines(total, title)
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(total, title)
        return
    columns = *Progress.get_default_columns()[:3], MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


def _lines(total: int, title: str) -> Callable[[], None]:
    print(title, file=sys.stderr)
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if done == total or done * 10 // total != (done - 1) * 10 // total:
            print(f"{done} of {total}", file=sys.stderr)

    return advance


def print_table(results: list[Result], clean: Run, program: list[str]) -> None:
    counts: dict[str, Counter[str]] = {}
    for result in results:
        counts.setdefault(result.case.call, Counter())[result.ending] += 1
    shown = [ending for ending in ENDINGS if any(row[ending] for row in counts.values())]
    rows = [["function", "runs", *shown]]
    rows += [
        [call, str(row.total()), *(str(row[one] or "") for one in shown)] for call, row in counts.items()
    ]
    total: Counter[str] = sum(counts.values(), Counter())
    rows += [["all", str(len(results)), *(str(total[one]) for one in shown)]]
    _print_rows(rows)
    if not clean.digest:
        print("The program prints no line 'digest: ...', so wrong results are not found.")
    for result in results:
        if result.ending in BAD:
            print(f"\n{describe(result, program)}")


def describe(result: Result, program: list[str]) -> str:
    """A bad ending: the call, the line, and the command that repeats it."""
    text = f"{result.ending}: call {result.case.nth} of {result.case.call}"
    text += f" in {result.case.process}" if result.case.process else ""
    text += f", at {result.line}" if result.line else ""
    text += f", {result.leak}" if result.leak else ""
    return f"{text}\n  {result.command(program)}"


def print_coverage(results: list[Result], clean: Run, action: str) -> None:
    """How many of the program's calls were failed, and which cannot fail."""
    counts: Counter[str] = Counter()
    for process in clean.processes.values():
        counts.update(process["counts"])
    possible = sum(count for call, count in counts.items() if can_fail(call, action))
    others = sorted(call for call in counts if not can_fail(call, action))
    failed = sum(result.ending != UNREACHED for result in results)
    print(f"{failed} of {possible} calls were failed, of {counts.total()} calls of the program.")
    if others:
        print(f"These cannot fail in this way: {', '.join(others)}.")


def _print_rows(rows: list[list[str]]) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for row in rows:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        return
    table = Table(*rows[0])
    for row in rows[1:]:
        table.add_row(*row, end_section=row is rows[-2])
    Console().print(table)


def write_json(path: str, results: list[Result], clean: Run, program: list[str]) -> None:
    document = {
        "program": program,
        "seconds": round(clean.seconds, 3),
        "digest": clean.digest,
        "calls": {name: process["counts"] for name, process in clean.processes.items()},
        "endings": Counter(result.ending for result in results),
        "runs": [
            {
                "call": result.case.call,
                "nth": result.case.nth,
                "process": result.case.process,
                "ending": result.ending,
                "bad": result.ending in BAD,
                "line": result.line,
                "leak": result.leak,
                "command": result.command(program),
                "errors": result.errors if result.ending in BAD else "",
            }
            for result in results
        ],
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
