"""Writes docs/upstream.md from the stored results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from upstream.expected import OWNERS, Expected
from upstream.results import Result, Store

HEAD = """\
# PyTorch's own tests on the device

Made by `make test-upstream` with torch {version}; do not edit. {scope}

Device-generic test files run on the device only, including tests that are marked as CUDA-only. `test_cuda.py` and
`test_cuda_multigpu.py` run with `cuda` replaced by the name of the device. A test that PyTorch marks as an expected
failure and that fails counts as passed. The reasons of failures are in `tests/upstream/expected_failures.toml`:

- *ours*: a defect or a missing feature of the device;
- *pytorch*: PyTorch or the test handles out-of-tree devices differently, or the test fails with any CPU kernel;
- *meaningless*: the test requires a feature that this device cannot have, such as a compiler for CUDA C++.

| file | passed | ours | pytorch | meaningless | no reason yet | skipped |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
"""


def counts(results: Iterable[Result], expected: Expected) -> Counter[str]:
    """The number of tests that passed, were skipped, or failed, by owner of the failure ("" without a reason)."""
    found: Counter[str] = Counter()
    for result in results:
        group = expected.find(result.test) if result.failed else None
        found[(group.whose if group else "") if result.failed else result.outcome] += 1
    return found


def row(name: str, found: Counter[str]) -> str:
    cells = [found[key] or "" for key in ("passed", *OWNERS, "", "skipped")]
    return f"| {name} | " + " | ".join(map(str, cells)) + " |\n"


def reasons(results: list[Result], expected: Expected) -> str:
    """The reasons of the failures, by owner, with the number of tests."""
    found: Counter[int] = Counter()
    for result in results:
        if result.failed and (group := expected.find(result.test)):
            found[id(group)] += 1
    text = ""
    for owner in OWNERS:
        groups = [group for group in expected.groups if group.whose == owner and found[id(group)]]
        if groups:
            text += f"\n## Reasons: {owner}\n\n"
            text += "".join(f"- {group.reason} ({found[id(group)]})\n" for group in groups)
    return text


def page(stores: dict[str, Store], expected: Expected, version: str, scope: str) -> str:
    text = HEAD.format(version=version, scope=scope)
    total: Counter[str] = Counter()
    everything: list[Result] = []
    for name, store in stores.items():
        found = counts(store, expected)
        total += found
        everything += store
        text += row(name, found)
    return text + row("**all**", total) + reasons(everything, expected)


def write(path: Path, stores: dict[str, Store], expected: Expected, scope: str) -> None:
    import torch

    path.write_text(page(stores, expected, torch.__version__.partition("+")[0], scope))
