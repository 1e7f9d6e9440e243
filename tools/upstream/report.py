"""Writes docs/upstream.md from the summary of the runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from operator import add

from upstream.expected import OWNERS, Expected
from upstream.summary import Counts, Parts, total

HEAD = """\
# PyTorch's own tests on the device

Made by `make test-upstream`; do not edit. Each row has the numbers of the last run of all tests of the file, and the
version of torch. A large file can run in parts (`SHARD=2/8`); if some have not run yet, the row says how many did.

Device-generic test files run on the device only, including tests that are marked as CUDA-only. `test_cuda.py` and
`test_cuda_multigpu.py` run with `cuda` replaced by the name of the device. A test that PyTorch marks as an expected
failure and that fails counts as passed. The reasons of failures are in `tests/upstream/expected_failures.toml`:

- *ours*: a defect or a missing feature of the device;
- *pytorch*: PyTorch or the test handles out-of-tree devices differently, or the test fails with any CPU kernel;
- *meaningless*: the test requires a feature that this device cannot have, such as a compiler for CUDA C++.
"""
COLUMNS = """
| file | torch | passed | ours | pytorch | meaningless | no reason yet | skipped |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
"""

# Tables of their own, and the folders of their files.
SECTIONS = {"torch.compile": ("inductor/", "dynamo/"), "torch.distributed": ("distributed/",)}


def row(name: str, counts: Counts) -> str:
    numbers = (counts.passed, *(getattr(counts, owner) for owner in OWNERS), counts.no_reason, counts.skipped)
    return f"| {name} | {counts.torch} | " + " | ".join(str(number or "") for number in numbers) + " |\n"


def section_of(file: str) -> str:
    return next((title for title, folders in SECTIONS.items() if file.startswith(folders)), "")


def file_row(name: str, parts: Parts) -> str:
    counts, ran, number = total(parts)
    return row(name if ran == number else f"{name}, {ran} of {number} parts", counts)


def table(files: Iterable[str], summary: dict[str, Parts]) -> str:
    rows = [file_row(name, summary[name]) if name in summary else f"| {name} | not run |\n" for name in files]
    known = [replace(total(summary[name])[0], torch="") for name in files if name in summary]
    return COLUMNS + "".join(rows) + row("**all**", reduce(add, known, Counts()))


def reasons(expected: Expected) -> str:
    """The reasons by owner, with the number of entries: tests, or patterns of tests."""
    text = ""
    for owner in OWNERS:
        if groups := [group for group in expected.groups if group.whose == owner]:
            text += f"\n## Reasons: {owner}\n\n"
            text += "".join(f"- {group.reason} ({len(group.tests)})\n" for group in groups)
    return text


def page(files: list[str], summary: dict[str, Parts], expected: Expected) -> str:
    """`files`: the rows, in order."""
    text = HEAD
    for title in ("", *SECTIONS):
        section = [name for name in files if section_of(name) == title]
        if section:
            text += (f"\n## {title}\n" if title else "") + table(section, summary)
    return text + reasons(expected)
