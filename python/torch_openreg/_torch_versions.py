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

# Remove the following four when 2.12 is the oldest supported version.
# torch.accelerator.empty_host_cache
HAS_EMPTY_HOST_CACHE = RELEASE >= (2, 12)
# The registry of profilers for PrivateUse1 (privateuse1_profiler.h)
HAS_PROFILER_REGISTRY = RELEASE >= (2, 12)
# The fused Adagrad reads found_inf on the device.
FUSED_ADAGRAD_SUPPORTS_AMP = RELEASE >= (2, 12)
# torch.distributed.split_group splits the backend of the accelerator; before, only that of CUDA.
SPLIT_GROUP_SUPPORTS_ACCELERATORS = RELEASE >= (2, 12)

# Remove the following six when 2.13 is the oldest supported version.
# Storages are pinned for the accelerator; before, is_pinned() and pin_memory() of a storage meant CUDA.
STORAGES_ARE_PINNED_FOR_THE_ACCELERATOR = RELEASE >= (2, 13)
# The statistics of pinned memory count a block as inactive when it is freed. Before, a block that no stream used
# stayed active.
HOST_STATS_COUNT_FREED_BLOCKS = RELEASE >= (2, 13)
# Work.exception() of a collective. Before, its result type was unknown to pybind11.
WORK_HAS_EXCEPTION = RELEASE >= (2, 13)
# Kernels that Inductor generates in C++ raise ZeroDivisionError. Before, an integer division by zero ended the process,
# on the CPU too.
CPP_KERNELS_CHECK_DIVISORS = RELEASE >= (2, 13)
# Kernels that Inductor generates in C++ return the index of argmax in a permuted tensor. Before, it was that in memory,
# on the CPU too.
CPP_KERNELS_INDEX_PERMUTED_TENSORS = RELEASE >= (2, 13)
# Operations on events in a compiled function keep their place. Before, Inductor could move kernels across them, on CUDA
# too (control_deps in torch/_functorch/_aot_autograd/streams.py).
COMPILED_EVENTS_KEEP_THEIR_PLACE = RELEASE >= (2, 13)
