"""``python -m torch_openreg driver-check``: runs openreg-driver-check, by default on the driver of this environment."""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig

from torch_openreg import _driver, _loader, _unavailable

HELP = "check a driver against the rules of openreg/driver.h"
PROGRAM = "openreg-driver-check"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "library", nargs="?", help="of the driver; default: the one that `import torch` loads"
    )
    parser.add_argument("--list", action="store_true", help="print the checks and their rules")
    parser.add_argument(
        "--only", action="append", default=[], metavar="CHECK", help="run only this check; may be repeated"
    )
    parser.add_argument("--timeout", help="seconds after which a check counts as hanging; default 60")


def run(arguments: argparse.Namespace) -> int:
    """The exit code of the program: 0 if all checks pass, 1 if one fails, 2 if the driver cannot be loaded or used."""
    options = ["--list"] if arguments.list else []
    for check in arguments.only:
        options += ["--only", check]
    if arguments.timeout is not None:
        options += ["--timeout", arguments.timeout]
    try:
        libraries = [] if arguments.list else [arguments.library or registered_library()]
        return subprocess.run([find_program(), *options, *libraries]).returncode
    except _unavailable.LoadError as error:
        print(f"python -m {_loader.PACKAGE} driver-check: {error}", file=sys.stderr)
        return 2


def registered_library() -> str:
    """The library that the variable names, by its path or the name of an entry point, or that of the only package."""
    chosen = os.environ.get(_driver.VARIABLE)
    if chosen == _driver.EMBEDDED:
        return os.path.join(_loader.PACKAGE_DIR, "lib", "libopenreg_sim.so")
    registered = _driver.registered()
    if registered is not None:
        return registered.path
    if chosen:
        return chosen
    raise _unavailable.LoadError(
        "no installed package registers a driver", "name the library of the driver, or install its package"
    )


def find_program() -> str:
    """Beside python; with `pip install --target`, beside the package."""
    folders = [sysconfig.get_path("scripts"), os.path.join(os.path.dirname(_loader.PACKAGE_DIR), "bin")]
    found = shutil.which(PROGRAM, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    if found is None:
        raise _unavailable.LoadError(f"{PROGRAM} is not installed", _loader.REINSTALL)
    return found
