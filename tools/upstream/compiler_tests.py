"""Patches PyTorch's test utilities of Inductor to run their tests for accelerators on the device."""

from __future__ import annotations


def run_on_device() -> None:
    """Call before a test file is imported.

    The files have a class for the CPU, one for GPUs with Triton, and one for MPS, the accelerator without Triton. The
    device takes the place of the last. The tests of Triton's code are skipped.
    """
    import torch
    from torch.testing._internal import inductor_utils

    name = torch._C._get_privateuse1_backend_name()
    inductor_utils.GPU_TYPE = name
    inductor_utils.HAS_MPS = True
    inductor_utils.HAS_CPU = inductor_utils.RUN_CPU = False
    inductor_utils.HAS_MULTIGPU = torch.get_device_module(name).device_count() > 1
