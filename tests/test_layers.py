"""The layers of csrc/: the folders that each folder may include. Upward includes and cycles are errors."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
BINDINGS = ROOT / "python/torch_openreg/bindings"
INCLUDE = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]""", re.MULTILINE)

# Each folder may include itself and the folders before it. A folder that is not listed is an error.
ORDER = [
    "common",
    "race_check",
    "memory_check",
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
    "device_code",
    "compiler",
    "graph",
    "process",
    "distributed/transport",
    "distributed",
    "guard",
    "hooks",
    "amp",
    "autograd",
    "operators/required",
    "operators/kernels",
    "operators/examples",
    "operators",
    "operators/library",
    "host_engine/ops",
    "host_engine/dtypes",
    "host_engine/inference",
    "host_engine/launch",
    "host_engine",
    "host_engine/registration",
]

MOST_FILES = 20
OTHER_FILES = {"CMakeLists.txt", "README.md"}


def sources() -> list[Path]:
    found = sorted(path for path in CSRC.rglob("*") if path.is_file() and path.name not in OTHER_FILES)
    assert {path.suffix for path in found} == {".h", ".cpp"}, "other suffixes are not scanned"
    return found


def folder(path: Path) -> str:
    return str(path.parent.relative_to(CSRC))


def includes() -> list[tuple[Path, str, str]]:
    """Includes between folders of csrc/: the file, its folder, the included folder."""
    found = []
    for path in sources():
        for other in included_folders(path.read_text()):
            if other != folder(path):
                found.append((path, folder(path), other))
    return found


def included_folders(text: str) -> list[str]:
    """System headers, and headers of the runtime and of torch, are not in csrc/."""
    names = [name for name in INCLUDE.findall(text) if (CSRC / name).is_file()]
    return [str(Path(name).parent) for name in names]


@pytest.mark.parametrize(
    "line",
    [
        '#include "graph/graph.h"',
        '  #  include   "graph/graph.h"',
        "#include <graph/graph.h>",
    ],
)
def test_every_form_of_include_is_found(line: str) -> None:
    assert included_folders(f"#pragma once\n{line}\n") == ["graph"]


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


@pytest.mark.parametrize("upper", ["process", "graph", "host_engine", "operators"])
def test_memory_does_not_include(upper: str) -> None:
    assert not [
        str(path.relative_to(ROOT))
        for path, own, other in includes()
        if own.startswith("memory") and other.split("/")[0] == upper
    ]


def test_one_file_of_the_bindings_includes_the_host_engine() -> None:
    users = {
        path.name
        for path in BINDINGS.glob("*.cpp")
        if any(other.startswith("host_engine") for other in included_folders(path.read_text()))
    }
    assert users == {"host_engine.cpp"}


def test_no_folder_has_too_many_files() -> None:
    sizes: dict[str, int] = defaultdict(int)
    for path in sources():
        sizes[folder(path)] += 1
    assert not {name: size for name, size in sizes.items() if size > MOST_FILES}
