"""Detects a GPU that this torch can use, without initializing its runtime.

This runs during ``import torch``: it must be fast, and the process must be able to fork afterwards. It checks for the
files of a driver; only if there are any, it counts GPUs with the management library (NVML or AMD SMI).
"""

import os
from typing import Any

# Files of the kernel drivers of NVIDIA (also under WSL), AMD and Intel.
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
    """A negative count means that the management library failed; then a GPU is assumed."""
    return count() != 0
