"""``python -m torch_openreg new foo``: writes a vendor's package for the device foo. See docs/guide/bring_up.md.

The package keeps a copy of its files as they were generated, in the folder ``.template``. ``--update`` generates them with
the installed version, and merges what has changed between the two into the vendor's files.
"""

import argparse
import contextlib
import keyword
import os
import sys
import tempfile
from pathlib import Path

from torch_openreg import _driver, _loader
from torch_openreg._unavailable import LoadError
from torch_openreg.new.merge import Files, MergeError, check_resolved, merge, read_files, write_files

HELP = "write a vendor's package: a driver in one C file, its build, tests and CI"
TEMPLATE = Path(__file__).parent / "template"
BASE = ".template"  # the files as they were generated
INSTALL = f"pip install '{_loader.PACKAGE}[new]'"


class Refused(Exception):
    """The command has changed nothing; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="name of the device: torch.NAME, device='NAME'")
    parser.add_argument("folder", nargs="?", type=Path, help="of the package; default torch_NAME")
    parser.add_argument(
        "--update",
        action="store_true",
        help="merge the template of the installed version into an existing package; needs git",
    )


def run(arguments: argparse.Namespace) -> int:
    """0: written; 1: an update with conflicts; 2: refused."""
    folder = arguments.folder or Path(f"torch_{arguments.name}")
    try:
        check_name(arguments.name)
        if arguments.update:
            return update(arguments.name, folder)
        create(arguments.name, folder)
        return 0
    except (Refused, MergeError, OSError) as error:
        print(f"python -m {_loader.PACKAGE} new: {error}", file=sys.stderr)
        return 2


def check_name(name: str) -> None:
    error = _driver.name_error(name, "the command line") or _conflict_with_torch(name)
    if error is not None:
        raise Refused(f"{error.what}: {error.remedy}")
    if name == _driver.DEFAULT_NAME:
        raise Refused(f"'{name}' is the simulated device: choose another name for the device")
    if keyword.iskeyword(name):
        raise Refused(
            f"'{name}' is a keyword of Python, so torch.{name} is not: choose another name for the device"
        )
    if name.endswith("_"):
        raise Refused(f"'torch_{name}' cannot be the name of a distribution: remove the last underscore")


def _conflict_with_torch(name: str) -> LoadError | None:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # the device may be installed already
    with contextlib.suppress(ImportError):  # without torch the package can be written, but not used
        import torch

        reserved = _loader.name_reserved(torch, name)
        if reserved is None and hasattr(torch, name) and name != _driver.DEFAULT_NAME:
            reserved = LoadError(f"torch.{name} exists already", "choose another name for the device")
        return reserved
    return None


def create(name: str, folder: Path) -> None:
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(
            f"'{folder}' exists and is not an empty folder: choose another one, or use --update for a package that this "
            "command has written"
        )
    files = generate(name)
    write_files(folder, files)
    write_files(folder / BASE, files)
    print(f"{folder} has {len(files)} files: README.md has the commands, driver.c the functions to replace.")


def update(name: str, folder: Path) -> int:
    if not (folder / BASE).is_dir():
        raise Refused(
            f"'{folder}' has no folder {BASE}: --update needs a package that this command has written, and the files as "
            "they were generated"
        )
    before = read_files(folder / BASE)
    if not any(path.parts[:2] == ("src", f"torch_{name}") for path in before):
        raise Refused(f"'{folder}' is not a package of the device '{name}'")
    after = generate(name)
    check_resolved(folder, before.keys() | after.keys())
    result = merge(folder, before, after, f"{_loader.PACKAGE} {_loader.VERSION}")
    for path, action in result.actions:
        print(f"{path}: {action}")
    # Last: an update that was interrupted can be repeated.
    write_files(folder / BASE, after)
    for path in before.keys() - after.keys():
        (folder / BASE / path).unlink()
    if result.conflicts:
        print("Edit the files with conflicts, which '<<<<<<<' marks.")
    elif not result.actions:
        print(f"{folder} is up to date.")
    return 1 if result.conflicts else 0


def generate(name: str) -> Files:
    """The files of a package, by their path."""
    try:
        import copier
    except ImportError as error:
        raise Refused(f"this command needs copier ({error}): {INSTALL}") from error
    if not _loader.VERSION:
        raise Refused(f"{_loader.PACKAGE} is not built: install it first")
    data = {
        "name": name,
        "version": _loader.VERSION.partition("+")[0],
        "torch": _loader._minor(_loader.TORCH_VERSION),
    }
    with tempfile.TemporaryDirectory() as scratch:
        copier.run_copy(str(TEMPLATE), scratch, data=data, defaults=True, quiet=True)
        return read_files(Path(scratch))
