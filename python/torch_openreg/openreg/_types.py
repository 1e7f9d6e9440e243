"""Legacy tensor types such as ``torch.openreg.FloatTensor``.

Older code uses ``isinstance(t, torch.cuda.FloatTensor)`` or ``t.type("torch.cuda.FloatTensor")``.
"""

from typing import Any

import torch

from torch_openreg._build import DEVICE_NAME

_DTYPES = {
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Bool": torch.bool,
}


class _TensorType(type):
    dtype: torch.dtype

    def __instancecheck__(cls, value: object) -> bool:
        return (
            isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME and value.dtype == cls.dtype
        )

    def __call__(cls, *args: Any) -> torch.Tensor:
        """Sizes return an uninitialized tensor; a sequence or array returns a tensor with its elements."""
        if len(args) == 1 and not isinstance(args[0], int | torch.Size):
            return torch.tensor(args[0], dtype=cls.dtype, device=DEVICE_NAME)
        size = args[0] if args and isinstance(args[0], torch.Size) else args or (0,)
        return torch.empty(size, dtype=cls.dtype, device=DEVICE_NAME)

    def __repr__(cls) -> str:
        return f"<class 'torch.{DEVICE_NAME}.{cls.__name__}'>"


__all__ = []
for _name, _dtype in _DTYPES.items():
    globals()[f"{_name}Tensor"] = _TensorType(
        f"{_name}Tensor", (), {"dtype": _dtype, "layout": torch.strided}
    )
    __all__.append(f"{_name}Tensor")
