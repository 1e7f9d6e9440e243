"""Patches PyTorch's test utilities of Inductor to run their tests for accelerators on the device."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def run_on_device(file: Path) -> None:
    """Call before the test file is imported.

    Some files have a class for the CPU, one for GPUs with Triton, and one for MPS, the accelerator without Triton; the
    device takes the place of MPS. In the others it takes the place of the GPU, unless they import Triton for it. Tests of
    Triton's code are skipped.
    """
    import torch
    from torch._inductor import config
    from torch.testing._internal import inductor_utils, triton_utils

    name = torch._C._get_privateuse1_backend_name()
    inductor_utils.GPU_TYPE = name
    inductor_utils.HAS_MPS = True
    inductor_utils.HAS_CPU = inductor_utils.RUN_CPU = False
    inductor_utils.HAS_MULTIGPU = torch.get_device_module(name).device_count() > 1
    as_gpu = re.search(r"HAS_MPS|^if HAS_GPU:\n +import triton", file.read_text(), re.MULTILINE) is None
    inductor_utils.HAS_GPU = triton_utils.HAS_GPU = as_gpu
    if inductor_utils.HAS_GPU:
        triton_utils.requires_gpu = lambda test: test
    # Tests of Triton's code are those of this backend.
    config.cuda_backend = "cpp"


def count_no_kernels(classes: Iterable[Any]) -> None:
    """Call after the test file is imported. Triton has one kernel for a list of tensors, and C++ one for each tensor."""
    for test_class in classes:
        if hasattr(test_class, "check_kernel_count"):
            test_class.check_kernel_count = False
