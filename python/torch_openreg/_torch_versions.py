"""Differences between the supported versions of torch, each with the version that makes it obsolete.

The differences that C++ sees are in csrc/common/version.h.
"""

import torch


def release(version: str) -> tuple[int, int]:
    """Major and minor number of a version such as "2.13.0+cpu"."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


RELEASE = release(torch.__version__)

# Before torch 2.13, torch had no graphs for other devices, and streams had no is_capturing. Remove when 2.13 is the
# oldest supported version.
HAS_GRAPHS = hasattr(torch.accelerator, "Graph")
