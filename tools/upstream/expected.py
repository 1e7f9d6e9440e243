"""Failures with a known reason, read from a TOML file.

[[failure]]
whose = "ours"              # or "pytorch", or "meaningless": the test requires a feature that this device cannot have
reason = "One sentence."
tests = ["test_a.py::TestA::test_b_*"]
run = false                 # optional: not run, because it crashes or hangs; counts as failed
always = false              # optional: passes sometimes
schedule = "blocking"       # optional: fails only if OPENREG_SCHEDULE has this value
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from upstream.results import Result

try:
    import tomllib
except ImportError:  # Python 3.10; pytest depends on tomli there
    import tomli as tomllib

OWNERS = ("ours", "pytorch", "meaningless")
_PATTERN_CHARACTERS = frozenset("*?")


def is_pattern(test: str) -> bool:
    return not _PATTERN_CHARACTERS.isdisjoint(test)


def matches(test: str, pattern: str) -> bool:
    return fnmatchcase(test, pattern) if is_pattern(pattern) else test == pattern


@dataclass(frozen=True)
class Group:
    """Tests that fail for the same reason."""

    whose: str
    reason: str
    tests: tuple[str, ...]
    run: bool = True
    always: bool = True
    schedule: str = ""


@dataclass
class Expected:
    groups: list[Group] = field(default_factory=list)

    @staticmethod
    def load(path: Path, schedule: str = "") -> Expected:
        """The entries for this schedule. Raises ValueError if an entry has no tests, reason or owner, or if a test is
        listed twice."""
        groups: list[Group] = []
        seen: set[str] = set()
        for entry in tomllib.loads(path.read_text()).get("failure", []):
            group = Group(**{**entry, "tests": tuple(entry.get("tests", ()))})
            if group.whose not in OWNERS or not group.reason.strip() or not group.tests:
                raise ValueError(f"{path}: an entry needs tests, a reason, and whose={OWNERS}: {entry}")
            if again := seen.intersection(group.tests):
                raise ValueError(f"{path}: listed twice: {', '.join(sorted(again))}")
            seen.update(group.tests)
            if group.schedule in ("", schedule):
                groups.append(group)
        return Expected(groups)

    def __post_init__(self) -> None:
        self._exact = {test: group for group in self.groups for test in group.tests if not is_pattern(test)}
        self._patterns = [
            (pattern, group) for group in self.groups for pattern in group.tests if is_pattern(pattern)
        ]

    def find(self, test: str) -> Group | None:
        """The group of a test. Exact ids take precedence over patterns, earlier patterns over later ones."""
        if group := self._exact.get(test):
            return group
        return next((group for pattern, group in self._patterns if fnmatchcase(test, pattern)), None)

    def not_run(self) -> list[str]:
        """Ids and patterns of tests that are never started."""
        return [test for group in self.groups if not group.run for test in group.tests]


@dataclass(frozen=True)
class Verdict:
    new_failures: list[Result]
    passes: list[str]  # ids and patterns that are expected to fail and did not

    @property
    def good(self) -> bool:
        return not self.new_failures and not self.passes


def judge(results: Iterable[Result], expected: Expected, complete: frozenset[str]) -> Verdict:
    """Compares results with the expected failures. `complete` names the files of which every test ran.

    A listed id must fail if it ran; a pattern must match at least one failure of a complete file. An entry of a
    complete file that matches no test is reported as a pass, so that the list has no stale entries.
    """
    results = list(results)
    failed = {result.test for result in results if result.failed}
    ran = {result.test for result in results}
    passes = []
    for group in expected.groups:
        if not group.always:
            continue
        for test in group.tests:
            in_complete_file = test.partition("::")[0] in complete
            if not is_pattern(test):
                wrong = test not in failed and (test in ran or in_complete_file)
            else:
                wrong = in_complete_file and not any(fnmatchcase(name, test) for name in failed)
            if wrong:
                passes.append(test)
    return Verdict([r for r in results if r.failed and expected.find(r.test) is None], passes)
