"""Legacy tensor types such as ``torch.openreg.FloatTensor``, and typed storages such as ``torch.openreg.FloatStorage``.

Older code uses ``isinstance(t, torch.cuda.FloatTensor)`` or ``t.type("torch.cuda.FloatTensor")``.
"""

from typing import Any

import torch
from torch.storage import _LegacyStorage

from torch_openreg._name import DEVICE_NAME

from .device import DeviceLike, index_of

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
_STORAGE_DTYPES = _DTYPES | {"ComplexDouble": torch.complex128, "ComplexFloat": torch.complex64}


class _TensorType(type):
    dtype: torch.dtype

    def __instancecheck__(cls, value: object) -> bool:
        return (
            isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME and value.dtype == cls.dtype
        )

    def __call__(cls, *args: Any, device: DeviceLike = None) -> torch.Tensor:
        """Sizes return an uninitialized tensor; a sequence or array returns a tensor with its elements."""
        on = torch.device(DEVICE_NAME, index_of(device))
        if len(args) == 1 and not isinstance(args[0], int | torch.Size):
            return torch.tensor(args[0], dtype=cls.dtype, device=on)
        size = args[0] if args and isinstance(args[0], torch.Size) else args or (0,)
        return torch.empty(size, dtype=cls.dtype, device=on)

    def __repr__(cls) -> str:
        return f"<class 'torch.{DEVICE_NAME}.{cls.__name__}'>"


class _Storage(_LegacyStorage):
    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"from_buffer: Not available for {DEVICE_NAME} storage")

    @classmethod
    def _new_with_weak_ptr(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"_new_with_weak_ptr: Not available for {DEVICE_NAME} storage")

    @classmethod
    def _new_shared_filename(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"_new_shared_filename: Not available for {DEVICE_NAME} storage")


__all__ = []
for _name, _dtype in _DTYPES.items():
    globals()[f"{_name}Tensor"] = _TensorType(
        f"{_name}Tensor", (), {"dtype": _dtype, "layout": torch.strided}
    )
    __all__.append(f"{_name}Tensor")
for _name, _dtype in _STORAGE_DTYPES.items():
    # torch takes the device of a typed storage from the name of its module.
    globals()[f"{_name}Storage"] = type(
        f"{_name}Storage",
        (_Storage,),
        {"__module__": f"torch.{DEVICE_NAME}", "dtype": _dtype, "_dtype": _dtype},
    )
    __all__.append(f"{_name}Storage")
