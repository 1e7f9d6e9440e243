"""The number of tests by outcome of each file, of its last complete run.

The whole suite takes hours, so its files run on different days. Their numbers are kept in a JSON file of the repository.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
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
        return Counts("", **{name: mine[name] + theirs[name] for name in mine if name != "torch"})


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


def load(path: Path) -> dict[str, Counts]:
    """By file name. Empty if there is no such JSON file."""
    if not path.exists():
        return {}
    return {name: Counts(**fields) for name, fields in json.loads(path.read_text()).items()}


def save(path: Path, summary: dict[str, Counts]) -> None:
    lines = (f"{json.dumps(name)}: {json.dumps(asdict(summary[name]))}" for name in sorted(summary))
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
