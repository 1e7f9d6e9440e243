"""Builds and tests the package with several versions of torch, and prints a table. `make test-versions` calls it.

Each version has its own environment and build folder, so a second run builds only what changed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

OUTCOMES = ("passed", "failed", "skipped")


@dataclass
class Result:
    version: str
    built: bool
    counts: dict[str, int]
    finished: bool

    @property
    def good(self) -> bool:
        return self.built and self.finished and self.counts["passed"] > 0 and self.counts["failed"] == 0


def outcome_counts(output: str) -> dict[str, int]:
    """The sums of pytest's summary lines, such as "1 failed, 20 passed, 3 skipped in 4.5s". Errors are failures."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for line in re.findall(r"^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+s", output, re.MULTILINE):
        for number, outcome in re.findall(r"(\d+) (\w+)", line):
            name = "failed" if outcome in ("error", "errors") else outcome
            if name in counts:
                counts[name] += int(number)
    return counts


def make(target: str, version: str, log: Path) -> bool:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file:
        done = subprocess.run(["make", target, f"TORCH={version}"], stdout=file, stderr=subprocess.STDOUT)
    return done.returncode == 0


def test(version: str, folder: Path, target: str) -> Result:
    if not make("build", version, folder / "build.log"):
        return Result(version, False, dict.fromkeys(OUTCOMES, 0), False)
    finished = make(target, version, folder / "test.log") and make("types", version, folder / "types.log")
    return Result(version, True, outcome_counts((folder / "test.log").read_text()), finished)


def table(results: list[Result]) -> str:
    lines = ["| torch | built | passed | failed | skipped |", "| --- | --- | ---: | ---: | ---: |"]
    for result in results:
        numbers = " | ".join(str(result.counts[name]) for name in OUTCOMES)
        built = "yes" if result.built else "no"
        lines.append(f"| {result.version} | {built} | {numbers} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--target", default="test-python", help="the target that runs the tests")
    parser.add_argument("--logs", type=Path, default=Path("build/versions"), help="folder of the logs")
    given = parser.parse_args()
    results = []
    for version in given.versions:
        print(f"torch {version}: the logs are in {given.logs / version}", flush=True)
        results.append(test(version, given.logs / version, given.target))
    print(table(results))
    return 0 if all(result.good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
