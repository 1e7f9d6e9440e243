"""Whether this machine has a GPU that this torch can use, found out without starting its runtime.

``import torch`` asks this, so it is cheap, and a process may fork afterwards: drivers are looked for by their files,
and only where there is one the GPUs are counted, by the library that manages them. No runtime is started.
"""

import os
from typing import Any

# Files of the kernel's drivers: NVIDIA's, also under WSL, and AMD's.
_CUDA_FILES = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/dxg")
_HIP_FILES = ("/dev/kfd", "/dev/dxg")
_XPU_FILES = ("/dev/dri", "/dev/dxg")


def find(torch: Any) -> str | None:
    """The device type of a GPU that torch can use, or None."""
    if torch.version.cuda is not None and _any_exists(_CUDA_FILES):
        return "cuda" if _is_visible(torch.cuda._device_count_nvml) else None
    if torch.version.hip is not None and _any_exists(_HIP_FILES):
        return "cuda" if _is_visible(torch.cuda._device_count_amdsmi) else None
    if getattr(torch.version, "xpu", None) is not None and _any_exists(_XPU_FILES):
        return "xpu" if torch.xpu.device_count() > 0 else None
    return None


def _any_exists(paths: tuple[str, ...]) -> bool:
    return any(os.path.exists(path) for path in paths)


def _is_visible(count: Any) -> bool:
    """A negative count: there is a driver, and nobody can count but its runtime, which is not started for that."""
    return count() != 0
