"""Merges the changes of a template into a package whose files have changed, too. Needs the program git."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

Files = dict[Path, bytes]  # contents by relative path
MARKER = b"<<<<<<< "


class MergeError(Exception):
    """Nothing was changed."""


@dataclass
class Result:
    actions: list[tuple[Path, str]] = field(default_factory=list)  # what was done to a file
    conflicts: int = 0


def read_files(folder: Path) -> Files:
    return {
        path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def write_files(folder: Path, files: Files) -> None:
    for path, contents in files.items():
        _write(folder / path, contents)


def check_resolved(folder: Path, paths: Iterable[Path]) -> None:
    """Raises if a file has the markers of a conflict."""
    found = [str(path) for path in sorted(paths) if (folder / path).is_file()]
    unresolved = [path for path in found if MARKER in (folder / path).read_bytes()]
    if unresolved:
        raise MergeError(f"{', '.join(unresolved)}: resolve the conflicts of the last update first")


def merge(folder: Path, before: Files, after: Files, label: str) -> Result:
    """Changes the files of the folder as they have changed between `before` and `after`.

    A file that has not been changed since `before` becomes that of `after`. In others, the changes of both sides are
    combined, with markers where they conflict. Files that were deleted stay deleted. All files are merged before the
    first is written.
    """
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    _check_kinds(folder, changed)
    current = {path: (folder / path).read_bytes() for path in changed if (folder / path).is_file()}
    if current and shutil.which("git") is None:
        raise MergeError("merging needs the program git, which is not installed")
    result, writes = Result(), dict[Path, bytes | None]()  # None: removed
    for path in changed:
        old, new, mine = before.get(path), after.get(path), current.get(path)
        if mine == new:
            continue
        if mine is None and old is not None:
            action = "you have deleted it; it stays so"
        elif mine == old and new is not None:
            writes[path] = new
            action = "updated" if old is not None else "added"
        elif mine == old:
            writes[path] = None
            action = "removed"
        elif new is None:
            action = "no longer in the template; your file is kept"
        else:
            writes[path], conflict = _merge_file(path, mine or b"", old or b"", new, label)
            action = "CONFLICT with your changes" if conflict else "merged with your changes"
            result.conflicts += conflict
        result.actions.append((path, action))
    for path, contents in writes.items():
        if contents is None:
            (folder / path).unlink()
        else:
            _write(folder / path, contents)
    return result


def _check_kinds(folder: Path, paths: list[Path]) -> None:
    """A file of the template is a file here, or missing, in a folder."""
    for path in paths:
        if (folder / path).is_dir():
            raise MergeError(f"{path} is a folder here, and a file in the template: rename it")
        for parent in list(path.parents)[:-1]:
            if os.path.lexists(folder / parent) and not (folder / parent).is_dir():
                raise MergeError(f"{parent} is a file here, and a folder in the template: rename it")


def _merge_file(path: Path, mine: bytes, old: bytes, new: bytes, label: str) -> tuple[bytes, bool]:
    """The merged contents, and whether they have conflicts."""
    with tempfile.TemporaryDirectory() as scratch:
        names = ["mine", "old", "new"]
        for name, contents in zip(names, (mine, old, new), strict=True):
            Path(scratch, name).write_bytes(contents)
        labels = ["-L", "this package", "-L", "as it was generated", "-L", label]
        command = ["git", "merge-file", "-p", *labels, *names]
        done = subprocess.run(command, cwd=scratch, capture_output=True)
    if not 0 <= done.returncode < 128:  # the number of conflicts, at most 127
        why = done.stderr.decode(errors="replace").strip()
        raise MergeError(f"{path}: git cannot merge it ({why}): move it away for the update")
    return done.stdout, done.returncode > 0


def _write(path: Path, contents: bytes) -> None:
    """Never leaves a part of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(contents)
    if path.exists():
        shutil.copymode(path, partial)
    os.replace(partial, path)
