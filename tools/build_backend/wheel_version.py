"""The version of the package, for scikit-build-core: the project's version, and the torch that the wheel is built for.

A wheel works with one minor version of torch, so its version has a local part, as PyTorch's own wheels have for CUDA:
`0.2.0+torch2.13`. An extra such as `torch_openreg[torch213]` could not select a file: all files of one version have the
same metadata. Without torch, as for a source distribution, there is no local part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

__all__ = ["dynamic_metadata"]

PROJECT = Path(__file__).parent.parent.parent / "CMakeLists.txt"


def dynamic_metadata(field: str, settings: Mapping[str, object] | None = None) -> str:
    if field != "version" or settings:
        raise ValueError(
            f"{__name__} provides only the version, without settings; got {field!r}, {settings!r}"
        )
    found = re.search(r"^project\(\w+ VERSION (\S+)", PROJECT.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{PROJECT} has no project version")
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return found.group(1)
    return f"{found.group(1)}+torch{'.'.join(torch.split('.')[:2])}"
