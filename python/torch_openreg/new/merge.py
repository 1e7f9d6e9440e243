"""Merges the changes of a template into a package whose files have changed, too. Needs the program git."""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

Files = dict[Path, bytes]  # contents by relative path
MARKER = b"<<<<<<< "


class MergeError(Exception):
    """Nothing was changed, or the merge can be repeated."""


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


def merge(folder: Path, before: Files, after: Files, label: str) -> Result:
    """Changes the files of the folder as they have changed between `before` and `after`.

    A file that has not been changed since `before` becomes that of `after`. In others, the changes of both sides are
    combined, with markers where they conflict. Files that were deleted stay deleted.
    """
    result = Result()
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    current = {path: (folder / path).read_bytes() for path in changed if (folder / path).is_file()}
    _check(current)
    for path in changed:
        old, new, mine = before.get(path), after.get(path), current.get(path)
        if mine == new:
            continue
        if mine is None and old is not None:
            action = "you have deleted it; it stays so"
        elif mine == old and new is not None:
            _write(folder / path, new)
            action = "updated" if old is not None else "added"
        elif mine == old:
            (folder / path).unlink()
            action = "removed"
        elif new is None:
            action = "no longer in the template; your file is kept"
        else:
            merged, conflict = _merge_file(mine or b"", old or b"", new, label)
            _write(folder / path, merged)
            action = "CONFLICT with your changes" if conflict else "merged with your changes"
            result.conflicts += conflict
        result.actions.append((path, action))
    return result


def _check(current: Files) -> None:
    unresolved = [str(path) for path, contents in current.items() if MARKER in contents]
    if unresolved:
        raise MergeError(f"{', '.join(unresolved)}: resolve the conflicts of the last update first")
    if current and shutil.which("git") is None:
        raise MergeError("merging needs the program git, which is not installed")


def _merge_file(mine: bytes, old: bytes, new: bytes, label: str) -> tuple[bytes, bool]:
    """The merged contents, and whether they have conflicts."""
    with tempfile.TemporaryDirectory() as scratch:
        names = ["mine", "old", "new"]
        for name, contents in zip(names, (mine, old, new), strict=True):
            Path(scratch, name).write_bytes(contents)
        labels = ["-L", "this package", "-L", "as it was generated", "-L", label]
        command = ["git", "merge-file", "-p", *labels, *names]
        done = subprocess.run(command, cwd=scratch, capture_output=True)
    if not 0 <= done.returncode < 128:  # the number of conflicts, at most 127
        raise MergeError(f"git merge-file failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout, done.returncode > 0


def _write(path: Path, contents: bytes) -> None:
    """Never leaves a part of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(contents)
    if path.exists():
        shutil.copymode(path, partial)
    os.replace(partial, path)
