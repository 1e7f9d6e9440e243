"""NVIDIA GPUs as the device ``nv``. ``import torch`` loads it: ``torch.ones(3, device="nv")``. Does not import torch."""

import os
from importlib.util import find_spec
from pathlib import Path

LIBRARIES = "TORCH_NV_LIBRARY_PATH"


def driver_path() -> Path:
    """The shared library of the driver; the entry point of the group ``torch_openreg.drivers``."""
    found = next(Path(__file__).parent.glob("driver.*.so"), None)
    if found is None:
        raise FileNotFoundError("torch_nv has no driver.*.so: reinstall torch_nv for this Python")
    if LIBRARIES not in os.environ and (folders := cuda_folders()):
        os.environ[LIBRARIES] = ":".join(folders)
    return found


def cuda_folders() -> list[str]:
    """Folders of CUDA's libraries that pip has installed, where the dynamic loader does not search."""
    packages = find_spec("nvidia")
    places = packages.submodule_search_locations if packages else None
    return [str(folder) for place in places or () for folder in sorted(Path(place).glob("*/lib"))]
