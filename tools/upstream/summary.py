"""The number of tests by outcome of each file, of its last complete run.

The whole suite takes hours, so its files run on different days, and large files run in parts (`--shard`). The numbers are
kept in a JSON file of the repository.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from pathlib import Path

from upstream.expected import OWNERS, Expected
from upstream.results import Result


@dataclass(frozen=True)
class Counts:
    """Outcomes of tests. Failures are counted by the owner of the reason."""

    torch: str = ""  # version
    passed: int = 0
    ours: int = 0
    pytorch: int = 0
    meaningless: int = 0
    no_reason: int = 0
    skipped: int = 0

    @property
    def explained(self) -> int:
        return sum(getattr(self, owner) for owner in OWNERS)

    def __add__(self, other: Counts) -> Counts:
        mine, theirs = asdict(self), asdict(other)
        torch = self.torch if self.torch == other.torch else ""
        return Counts(torch, **{name: mine[name] + theirs[name] for name in mine if name != "torch"})


def count(results: Iterable[Result], expected: Expected, torch: str = "") -> Counts:
    found: Counter[str] = Counter()
    for result in results:
        if not result.failed:
            found[result.outcome] += 1
        elif group := expected.find(result.test):
            found[group.whose] += 1
        else:
            found["no_reason"] += 1
    return Counts(torch, **found)


# The counts of each part of a file that ran. "2/8" is the second of eight parts, "1/1" the whole file.
Parts = dict[str, Counts]


def number_of_parts(part: str) -> int:
    return int(part.partition("/")[2])


def record(parts: Parts, part: str, counts: Counts) -> Parts:
    """With the result of one more part. Results of another division stay until this one is complete; results of another
    version of torch are not added up with these."""
    number = number_of_parts(part)
    same = {p: c for p, c in parts.items() if number_of_parts(p) == number and c.torch == counts.torch}
    same[part] = counts
    if len(same) == number:
        return same
    return {p: c for p, c in parts.items() if number_of_parts(p) != number} | same


def total(parts: Parts) -> tuple[Counts, int, int]:
    """The sum of a complete division, else of the division of which most ran; how many parts ran; and of how many."""
    divisions: dict[int, list[Counts]] = {}
    for part, counts in parts.items():
        divisions.setdefault(number_of_parts(part), []).append(counts)
    number = max(divisions, key=lambda number: len(divisions[number]) / number)
    ran = divisions[number]
    return reduce(add, ran), len(ran), number


def load(path: Path) -> dict[str, Parts]:
    """By file name. Empty if there is no such JSON file."""
    if not path.exists():
        return {}
    files = json.loads(path.read_text()).items()
    return {name: {part: Counts(**fields) for part, fields in parts.items()} for name, parts in files}


def save(path: Path, summary: dict[str, Parts]) -> None:
    files = []
    for name in sorted(summary):
        parts = [
            f"{json.dumps(part)}: {json.dumps(asdict(summary[name][part]))}" for part in sorted(summary[name])
        ]
        files.append(f"{json.dumps(name)}: {{" + ",\n  ".join(parts) + "}")
    path.write_text("{\n" + ",\n".join(files) + "\n}\n")
