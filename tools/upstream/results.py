"""The result of one test, and the JSON Lines file with the results of one test file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

FAILURES = ("failed", "crashed", "hung")
OUTCOMES = ("passed", "skipped", *FAILURES)


@dataclass(frozen=True)
class Result:
    test: str
    outcome: str  # one of OUTCOMES
    seconds: float = 0.0
    message: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome in FAILURES


class Store:
    """Results by test id. Each result is written to disk before the next test starts, so that a run can be resumed.

    The last result of a test counts. Not thread safe.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._results: dict[str, Result] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                result = Result(**json.loads(line))
                self._results[result.test] = result

    def add(self, result: Result) -> None:
        self._results[result.test] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as out:
            out.write(json.dumps(asdict(result)) + "\n")

    def discard(self, *tests: str) -> None:
        """Removes the results of these tests."""
        if not self._results.keys().isdisjoint(tests):
            kept = [result for result in self if result.test not in tests]
            self.clear()
            for result in kept:
                self.add(result)

    def clear(self) -> None:
        self._results.clear()
        self.path.unlink(missing_ok=True)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results.values())

    def __len__(self) -> int:
        return len(self._results)

    def tests(self) -> list[str]:
        return list(self._results)
