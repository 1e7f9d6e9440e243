"""The layers of csrc/: the folders that each folder may include. Upward includes and cycles are errors."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)

# Each folder may include itself and the folders before it. A folder that is not listed is an error.
ORDER = [
    "common",
    "device",
    "stream",
    "event",
    "memory/pool",
    "memory",
    "storage",
    "random",
    "profiler",
    "layouts",
    "diagnostics",
    "kernel",
    "graph",
    "process",
    "guard",
    "hooks",
    "amp",
    "autograd",
    "operators/required",
    "operators/kernels",
    "operators/examples",
    "operators",
    "host_engine/ops",
    "host_engine/dtypes",
    "host_engine/inference",
    "host_engine/launch",
    "host_engine",
    "host_engine/registration",
]

MOST_FILES = 20


def sources() -> list[Path]:
    return sorted(path for path in CSRC.rglob("*") if path.suffix in {".h", ".cpp"})


def folder(path: Path) -> str:
    return str(path.parent.relative_to(CSRC))


def includes() -> list[tuple[Path, str, str]]:
    """Includes between folders: the file, its folder, the included folder."""
    found = []
    for path in sources():
        for name in INCLUDE.findall(path.read_text()):
            other = str(Path(name).parent)
            if other != folder(path):
                found.append((path, folder(path), other))
    return found


def test_every_folder_is_listed() -> None:
    assert {folder(path) for path in sources()} == set(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_a_folder_includes_only_folders_before_it(name: str) -> None:
    allowed = ORDER[: ORDER.index(name)]
    upward = [
        f"{path.relative_to(ROOT)} includes {other}/"
        for path, own, other in includes()
        if own == name and other not in allowed
    ]
    assert not upward


def test_there_are_no_cycles_between_folders() -> None:
    edges: dict[str, set[str]] = defaultdict(set)
    for _, own, other in includes():
        edges[own].add(other)

    def cycle_from(start: str) -> list[str] | None:
        paths = [[start]]
        seen = set()
        while paths:
            path = paths.pop()
            for following in edges[path[-1]]:
                if following == start:
                    return [*path, start]
                if following not in seen:
                    seen.add(following)
                    paths.append([*path, following])
        return None

    assert not [cycle for cycle in map(cycle_from, ORDER) if cycle]


def test_only_the_host_engine_includes_the_host_engine() -> None:
    assert not [
        f"{path.relative_to(ROOT)} includes {other}/"
        for path, own, other in includes()
        if other.startswith("host_engine") and not own.startswith("host_engine")
    ]


def test_no_folder_has_too_many_files() -> None:
    sizes: dict[str, int] = defaultdict(int)
    for path in sources():
        sizes[folder(path)] += 1
    assert not {name: size for name, size in sizes.items() if size > MOST_FILES}
