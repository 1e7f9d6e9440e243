"""Prints the version of torch that is installed for this Python, without importing it; nothing if there is none."""

import contextlib
from importlib import metadata

with contextlib.suppress(metadata.PackageNotFoundError):
    print(metadata.version("torch").split("+")[0])
