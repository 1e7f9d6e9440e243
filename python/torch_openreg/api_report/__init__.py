"""``python -m torch_openreg api-report OLD NEW``: what changed between two versions of torch for an out-of-tree device.

A version is the path of a Python interpreter that has it, or a number such as 2.15.0: that of this interpreter, or one
whose environment ``make build`` has created in the current folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from .compare import compare

HELP = "what changed between two versions of torch for an out-of-tree device"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", help="a Python interpreter with the older torch, or a version such as 2.14.1")
    parser.add_argument("new", help="the same for the newer torch")
    parser.add_argument("--output", type=Path, help="write the page to this file")


def run(arguments: argparse.Namespace) -> int:
    try:
        page = compare(collected(arguments.old), collected(arguments.new))
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    if arguments.output:
        try:
            arguments.output.write_text(page)
        except OSError as error:
            print(f"cannot write {arguments.output}: {error.strerror}", file=sys.stderr)
            return 2
    else:
        print(page, end="")
    return 0


def interpreter(version: str) -> Path:
    """The interpreter of a version. Raises LookupError with the places where it was searched."""
    by_name = [Path(version), Path(f".venv-{version}/bin/python")]
    others = [Path(sys.executable), Path(".venv/bin/python")]
    for path in by_name:
        if path.is_file():
            return path
    for path in others:
        if path.is_file() and installed_version(path) == version:
            return path
    if by_name[0].is_dir():
        raise LookupError(f"{version} is a folder; give its interpreter, such as {version}/bin/python")
    places = ", ".join(str(path) for path in by_name + others)
    raise LookupError(f"torch {version} was not found ({places}); run: make build TORCH={version}")


def installed_version(python: Path) -> str:
    program = "import importlib.metadata as m; print(m.version('torch').split('+')[0])"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True)
    return done.stdout.strip()


def collected(version: str) -> Any:
    python = interpreter(version)
    here = Path(__file__).parent
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(
        [python, here / "collect.py", here.parent], capture_output=True, text=True, env=environment
    )
    try:
        done.check_returncode()
        return json.loads(done.stdout)
    except (subprocess.CalledProcessError, json.JSONDecodeError):
        raise LookupError(
            f"{python} is not a Python that can import torch:\n{done.stderr.strip()[-2000:]}"
        ) from None
