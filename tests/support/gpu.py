"""For tests that a GPU of the machine affects."""

import pytest
import torch

# Environment variables that hide GPUs from a process.
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}

# CUDA allocates the memory for pin_memory=True; see docs/guide/memory.md.
skip_with_cuda = pytest.mark.skipif(
    torch.cuda.is_available(), reason="torch allocates pinned memory from CUDA"
)
