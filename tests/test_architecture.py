"""docs/architecture.md: its files and functions exist, and its folders are in the order of the layers. Names in the sources."""

import re
from pathlib import Path

import pytest
from test_layers import ORDER

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"

# `file`: `function`, the form of each step of a code path.
STEP = re.compile(r"`(?P<file>(?:[\w.+-]+/)+[\w.+-]+\.(?:cpp|h|py))`:\s+`(?P<name>\w+)`")
FILE = re.compile(r"`((?:[\w.+-]+/)+[\w.+-]+\.(?:cpp|h|py|md))`")
FOLDERS = re.compile(r"^## Folders.*?^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = ["`a + b`", "`x.cpu()`", "The error of a kernel", "A graph replay"]
FEWEST_STEPS = 6


def steps(text: str) -> list[tuple[str, str]]:
    return [(match["file"], match["name"]) for match in STEP.finditer(text)]


def wrong_steps(text: str) -> list[str]:
    wrong = [f"{file} does not exist" for file in FILE.findall(text) if not (ROOT / file).is_file()]
    for file, name in steps(text):
        path = ROOT / file
        if path.is_file() and not re.search(rf"\b{name}\b *[({{;,]", path.read_text()):
            wrong.append(f"there is no {name} in {file}")
    return wrong


def folders(text: str) -> list[str]:
    (block,) = FOLDERS.findall(text)
    return [line.split()[0] for line in block.splitlines()]


def test_files_and_functions_exist() -> None:
    assert not wrong_steps(PAGE.read_text())


@pytest.mark.parametrize("section", SECTIONS)
def test_each_code_path_has_enough_steps(section: str) -> None:
    text = PAGE.read_text().partition(f"## {section}\n")[2].partition("\n## ")[0]
    assert len(steps(text)) >= FEWEST_STEPS


def test_folders_are_in_the_order_of_the_layers() -> None:
    assert folders(PAGE.read_text()) == ORDER


def test_the_name_of_the_device_is_not_a_literal() -> None:
    """It is data: orGetDeviceName in C++, _name.DEVICE_NAME in Python."""
    sources = [p for p in (ROOT / "csrc").rglob("*") if p.suffix in (".h", ".cpp")]
    sources += (ROOT / "python").rglob("*.py")
    assert len(sources) > 200
    assert [
        p for p in sources if '"openreg"' in re.sub(r'""".*?"""', "", p.read_text(), flags=re.DOTALL)
    ] == []


def test_missing_files_and_functions_are_detected() -> None:
    good = "1. `csrc/graph/graph.cpp`: `replay`"
    assert not wrong_steps(good)
    assert wrong_steps(good.replace("replay", "gone")) == ["there is no gone in csrc/graph/graph.cpp"]
    assert wrong_steps(good.replace("graph.cpp", "gone.cpp")) == ["csrc/graph/gone.cpp does not exist"]
