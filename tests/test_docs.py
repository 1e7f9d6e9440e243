"""The documentation: quoted code is in the tree, programs run, and names exist.

In a page, a fenced block whose info string ends with a path quotes that file: the file contains its lines,
contiguous and in that order; only the common indentation may be missing. A block with the info string
``python run`` is a program: all programs of a page run in sequence in one interpreter. Other blocks are not checked.

An identifier in backticks must exist in our sources or in torch, and a file name must be that of a file.
"""

import functools
import importlib.util
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from interpreter import python

from torch_openreg._torch_versions import HAS_GRAPHS, HAS_PROFILER_REGISTRY

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = sorted((ROOT / "csrc").rglob("README.md"))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *FOLDERS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
GUIDE = [page for page in PAGES if page.parent.name == "guide"]
EXPLANATIONS = [
    ROOT / "docs" / "architecture.md",
    ROOT / "docs" / "glossary.md",
    ROOT / "README.md",
    *FOLDERS,
]

# Paths in a page are relative to the repository, to our C headers, or to torch's headers.
TORCH = Path(importlib.util.find_spec("torch").origin).parent
PLACES = [ROOT, ROOT / "include", TORCH / "include"]

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<text>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?[^)]*\)")
PATH = re.compile(r"`((?:[\w.+-]+/)+[\w.+-]+\.(?:cpp|h|py|md))`")
FILE_NAME = re.compile(r"`([\w+-]+\.(?:cpp|h|py))`")

CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
# `a_name`, `Class::name`, `module.name`, `name()`, `name(arguments)`; the last part is the name.
IDENTIFIER = re.compile(r"(?:\w+(?:::|\.))*(\w+)(?:\([^()]*\))?")
# Only words that look like code are checked: snake_case, camelCase, PascalCase.
LIKE_CODE = re.compile(
    r"_*[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+_*|_+[a-z]\w*|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+(?:[A-Z]\w*)+"
)
OURS = [ROOT / folder for folder in ("csrc", "runtime", "include", "python", "tools", "tests", "examples")]
NAMED_IN_OURS = {"csrc", "runtime", "include", "python"}
# Large, and not named in any page: generated headers, and some packages.
NOT_SEARCHED = {"ops", "_inductor", "_dynamo", "testing", "onnx", "distributed"}

# Names that neither our sources nor all supported versions of torch contain.
ELSEWHERE = {
    **{
        f"OPENREG_{setting}": "built from the device name"
        for setting in (
            "ALLOC_CONF",
            "AUTOLOAD",
            "FAULTS",
            "HOST_ENGINE",
            "MEMORY_CHECK_QUARANTINE",
            "SCHEDULE",
            "SEED",
        )
    },
    **dict.fromkeys(("FOO_AUTOLOAD", "FOO_SCHEDULE", "is_foo", "torch_foo"), "the device of a vendor"),
    "MainProcess": "multiprocessing",
    "TrainingArguments": "transformers",
    "load_checkpoint_and_dispatch": "accelerate",
    "load_file": "safetensors",
    "BaseScheduling": "torch/_inductor/scheduler.py",
    "SIMDScheduling": "torch/_inductor/codegen/simd.py",
    "privateuse1_runtime": "a category of Kineto's traces",
    "THPEvent_pynew": "PyTorch's Event.cpp, which is not installed",
    "THPStorage_isShared": "PyTorch's StorageSharing.cpp, which is not installed",
    "openreg_unfinished": "built from the device name in csrc/profiler/activity_profiler.cpp",
}

# Headers that this version of torch does not have, and newer versions do.
NEWER = {
    *([] if HAS_GRAPHS else ["ATen/core/GraphImplInterface.h"]),
    *([] if HAS_PROFILER_REGISTRY else ["torch/csrc/profiler/standalone/privateuse1_profiler.h"]),
}


@dataclass
class Block:
    line: int  # of the first line of code
    info: list[str]
    text: str

    @property
    def quoted(self) -> str | None:
        """The file that the block quotes."""
        return self.info[1] if len(self.info) == 2 and self.info[1] != "run" else None

    @property
    def runs(self) -> bool:
        return self.info == ["python", "run"]


def blocks(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("text")) + 1
        yield Block(line, match["info"].split(), textwrap.dedent(match["text"]))


def contains(source: str, quote: str) -> bool:
    """Whether the source contains the lines of the quote, apart from common indentation."""
    wanted = [line.rstrip() for line in textwrap.dedent(quote).strip("\n").splitlines()]
    lines = [line.rstrip() for line in source.splitlines()]
    return bool(wanted) and any(
        textwrap.dedent("\n".join(lines[i : i + len(wanted)])).splitlines() == wanted
        for i in range(len(lines) - len(wanted) + 1)
        if lines[i].endswith(wanted[0])
    )


def wrong_blocks(text: str) -> list[str]:
    wrong = []
    for block in blocks(text):
        if len(block.info) > 2:
            wrong.append(f"line {block.line}: invalid info string '{' '.join(block.info)}'")
        elif block.quoted is None:
            continue
        elif not (ROOT / block.quoted).is_file():
            wrong.append(f"line {block.line}: {block.quoted} does not exist")
        elif not contains((ROOT / block.quoted).read_text(), block.text):
            wrong.append(f"line {block.line}: this is not in {block.quoted}:\n{block.text}")
    return wrong


def program(text: str) -> str:
    """All programs of the page, each line at its line number in the page, so that tracebacks name that line."""
    lines: list[str] = []
    for block in blocks(text):
        if block.runs:
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n" if lines else ""


def exists(path: str) -> bool:
    """In the repository, written by the build from a template, or in torch (this or a newer version)."""
    if path in NEWER:
        return True
    if path.startswith("torch/") and (TORCH.parent / path).exists():
        return True
    return any((place / path).exists() or (place / f"{path}.in").exists() for place in PLACES)


def missing(text: str, folder: Path) -> list[str]:
    prose = FENCE.sub("", text)
    targets = [link.partition("#")[0] for link in LINK.findall(prose) if not re.match(r"[a-z]+:", link)]
    links = [target for target in targets if target and not (folder / target).exists()]
    return links + [path for path in PATH.findall(prose) if not exists(path) and not (folder / path).exists()]


def words(files: Iterable[Path]) -> set[str]:
    return {word for file in files for word in re.findall(r"\w+", file.read_text(errors="ignore"))}


def sources(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix in {".h", ".cpp", ".c", ".py", ".in", ".jinja"}]


@functools.cache
def words_of_ours() -> set[str]:
    return words(path for folder in OURS if folder.name in NAMED_IN_OURS for path in sources(folder))


@functools.cache
def words_of_torch() -> set[str]:
    headers = [TORCH / "include" / folder for folder in ("c10", "ATen", "torch")]
    found = [path for folder in headers for path in folder.rglob("*.h")] + list(TORCH.rglob("*.py"))
    searched = [path for path in found if not NOT_SEARCHED & set(path.relative_to(TORCH).parts)]
    operators = {part for op in torch._C._dispatch_get_all_op_names() for part in re.findall(r"\w+", op)}
    return words(searched) | operators


@functools.cache
def file_names() -> set[str]:
    ours = {re.sub(r"\.(in|jinja)$", "", path.name) for folder in OURS for path in sources(folder)}
    return (
        ours
        | {path.name for path in (TORCH / "include").rglob("*.h")}
        | {path.name for path in TORCH.rglob("*.py")}
    )


def identifiers(text: str) -> set[str]:
    # By paragraph: an unmatched backtick must not swap code and text in the rest of the page.
    spans = [span for paragraph in FENCE.sub("", text).split("\n\n") for span in CODE.findall(paragraph)]
    names = [match[1] for span in spans if (match := IDENTIFIER.fullmatch(span))]
    return {name for name in names if LIKE_CODE.fullmatch(name)}


def unknown_names(text: str) -> list[str]:
    unknown = identifiers(text) - words_of_ours() - ELSEWHERE.keys()
    files = set(FILE_NAME.findall(FENCE.sub("", text)))
    return sorted(unknown - words_of_torch() if unknown else unknown) + sorted(files - file_names())


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_quoted_code_is_in_the_tree(page: Path) -> None:
    assert not wrong_blocks(page.read_text())


@pytest.mark.parametrize("page", [page for page in PAGES if program(page.read_text())], ids=name)
def test_programs_run(page: Path, tmp_path: Path) -> None:
    script = tmp_path / f"{page.stem}_page.py"
    script.write_text(program(page.read_text()))
    races = {"OPENREG_CHECK_RACES": "0"} if page.stem == "finding_bugs" else {}  # its races are on purpose
    python(str(script), cwd=tmp_path, **races)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_and_paths_exist(page: Path) -> None:
    assert not missing(page.read_text(), page.parent)


@pytest.mark.parametrize("page", [*GUIDE, *EXPLANATIONS], ids=name)
def test_names_exist(page: Path) -> None:
    assert not unknown_names(page.read_text())


def test_the_index_lists_every_page() -> None:
    listed = LINK.findall((ROOT / "docs" / "guide" / "README.md").read_text())
    assert [page.name for page in GUIDE if page.name not in {"README.md", *listed}] == []


# ---- The checks detect errors


QUOTE = """
text

```cpp csrc/guard/guard.cpp
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);
```

- a list

  ```python run
  raise KeyError
  ```
"""


def test_changed_quotes_are_detected() -> None:
    assert not wrong_blocks(QUOTE)
    assert "not in csrc/guard/guard.cpp" in wrong_blocks(QUOTE.replace("Guard)", "Wrong)"))[0]
    assert "does not exist" in wrong_blocks(QUOTE.replace("guard.cpp", "gone.cpp"))[0]
    assert "invalid info string" in wrong_blocks(QUOTE.replace("cpp csrc", "cpp run csrc"))[0]


def test_quotes_are_contiguous_and_keep_their_inner_indentation() -> None:
    source = "a {\n  if (b) {\n    c;\n  }\n  d;\n}\n"
    assert contains(source, "if (b) {\n  c;\n}\n")
    assert contains(source, "  if (b) {\n    c;\n")
    assert not contains(source, "if (b) {\nc;\n}\n")
    assert not contains(source, "if (b) {\nd;\n")
    assert not contains(source, "")
    assert not contains(source, "f (b) {\n")


def test_programs_that_raise_are_detected(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(program(QUOTE))
    with pytest.raises(AssertionError, match=r"line 11.*\n.*raise KeyError"):
        python(str(script), cwd=tmp_path)


def test_dead_links_and_paths_are_detected(tmp_path: Path) -> None:
    paths = "`csrc/gone.cpp` `c10/core/Gone.h` `c10/core/Stream.h` `csrc/guard/guard.cpp`"
    text = f"[a](gone.md) [b](https://x.org/gone.md) [c](#here) {paths}"
    assert missing(text, tmp_path) == ["gone.md", "csrc/gone.cpp", "c10/core/Gone.h"]
    assert missing("```\n[a](gone.md)\n```", tmp_path) == []


def test_names_that_do_not_exist_are_detected() -> None:
    good = "`launch_kernel` `LaunchKey` `Graph::replay` `orLaunchKernel()` `c10::DeviceGuard` `torch.Tensor.index_put_`"
    assert unknown_names(good) == []
    bad = "`launch_colonel` `LaunchQuay` `Graph::rewind_it` `orLunchKernel(a, b)` `torch.openreg.made_up()` `gone_by.h`"
    expected = sorted(["launch_colonel", "LaunchQuay", "rewind_it", "orLunchKernel", "made_up"])
    assert unknown_names(bad) == [*expected, "gone_by.h"]
    assert unknown_names("`word` `x = made_up + 1` `OPENREG=1`\n```\n`made_up`\n```") == []
