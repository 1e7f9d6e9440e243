"""Selects the tests of a file: all, a fixed sample, a shard, or those that match a pattern."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase


def rank(test: str) -> int:
    """A hash of the test id, so that samples and shards are the same on every machine."""
    return int.from_bytes(hashlib.sha256(test.encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Selection:
    sample: int = 0  # this many tests of each file; 0 means all
    shard: int = 0
    shards: int = 1
    match: str = ""  # a glob pattern of test ids

    @property
    def complete(self) -> bool:
        """Whether every test of a file is selected."""
        return self.whole_shard and self.shards == 1

    @property
    def whole_shard(self) -> bool:
        """Whether every test of the shard is selected."""
        return not self.sample and not self.match

    @property
    def part(self) -> str:
        """The shard as `parse_shard` reads it."""
        return f"{self.shard + 1}/{self.shards}"

    def in_shard(self, test: str) -> bool:
        return rank(test) % self.shards == self.shard

    def select(self, tests: Iterable[str]) -> list[str]:
        """The selected tests, in the order of their ids."""
        chosen = {test for test in tests if not self.match or fnmatchcase(test, self.match)}
        if self.sample:
            chosen = set(sorted(chosen, key=rank)[: self.sample])
        return sorted(filter(self.in_shard, chosen))


def parse_shard(text: str) -> tuple[int, int]:
    """ "2/5", the second of five, as (1, 5)."""
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise ValueError(f"a shard is i/n with 1 <= i <= n, as in 2/5; got {text!r}")
    return int(number) - 1, int(count)
