"""Prints the version of torch to build with.

    python torch_version.py BUILT_LAST VERSION...
    python torch_version.py --check VERSION       an error message, if VERSION cannot be built with

The version that is installed for this Python, if it is supported; else BUILT_LAST, if not empty; else the last VERSION
that exists for this Python. torch is not imported.
"""

import contextlib
import re
import sys
from importlib import metadata

OLDEST = (2, 11)
# The oldest Python of a version of torch, from the version on.
OLDEST_PYTHON = {(2, 15): (3, 11)}


def release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def installed() -> str:
    with contextlib.suppress(metadata.PackageNotFoundError):
        version = metadata.version("torch").split("+")[0]
        if re.fullmatch(r"\d+\.\d+\.\d+", version) and release(version) >= OLDEST:
            return version
    return ""


def exists_for(python: tuple[int, int], version: str) -> bool:
    return all(python >= oldest for first, oldest in OLDEST_PYTHON.items() if release(version) >= first)


def why_not(version: str, python: tuple[int, int]) -> str:
    """Why this version cannot be built with. Empty: it can, as far as its number tells."""
    if not re.fullmatch(r"\d+\.\d+\.\d+\S*", version):
        return f"TORCH={version} is not a version of torch, such as 2.15.0"
    if release(version) < OLDEST:
        return f"TORCH={version} is not supported; the oldest supported version is {OLDEST[0]}.{OLDEST[1]}.0"
    if not exists_for(python, version):
        return f"torch {version} does not exist for Python {python[0]}.{python[1]}"
    return ""


if __name__ == "__main__":
    built_last, *versions = sys.argv[1:]
    if built_last == "--check":
        print(why_not(versions[0], sys.version_info[:2]))
        sys.exit()
    supported = [version for version in versions if exists_for(sys.version_info[:2], version)]
    print(installed() or built_last or supported[-1])
