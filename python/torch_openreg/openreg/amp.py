"""Mixed precision: functions that ``torch.autocast`` calls."""

import torch


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that ``torch.autocast`` may cast to."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Always true: the CPU kernels support bfloat16."""
    return True


def is_tf32_supported() -> bool:
    """Always false: float32 is computed in float32."""
    return False
