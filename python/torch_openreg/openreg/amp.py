"""Mixed precision: what ``torch.autocast`` asks of a device's module."""

import torch


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that ``torch.autocast`` may cast to."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Always: the host has the kernels."""
    return True


def is_tf32_supported() -> bool:
    """Never: the host multiplies float32 as float32."""
    return False
