"""A page of docs/ that a tool writes and a test keeps true."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

ROOT = Path(__file__).resolve().parent.parent
TORCH = torch.__version__.partition("+")[0]


class Page(NamedTuple):
    name: str  # "autocast": docs/autocast.md, which tools/autocast.py writes
    write: Callable[[], str]
    problems: Callable[[], list[str]] = list  # what is wrong with what the text would say

    @property
    def path(self) -> Path:
        return ROOT / "docs" / f"{self.name}.md"

    def made_with_another_torch(self) -> bool:
        """Whether nothing can be said about it: its text gives the version that it speaks of."""
        return f"with torch {TORCH};" not in self.path.read_text()

    def is_old(self) -> bool:
        return self.path.read_text() != self.write()

    def main(self, description: str) -> int:
        """The command line of the tool. Returns its exit code."""
        parser = argparse.ArgumentParser(description=description.splitlines()[0])
        parser.add_argument("--check", action="store_true", help="say what is wrong and write nothing")
        check = parser.parse_args().check
        wrong = self.problems()
        if not check:
            self.path.write_text(self.write())
        elif self.is_old():
            wrong.append(f"{self.path.name} is old: run tools/{self.name}.py")
        print("\n".join(wrong), end="\n" if wrong else "")
        return 1 if wrong else 0
