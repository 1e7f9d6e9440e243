"""An operator that writes to its argument: the schema says so, and the rest follows from it.

``define`` takes the schema as text and ``impl`` a kernel for a device; this is what ``custom_op`` does
underneath. ``Tensor(a!)`` is what makes version counters, FakeTensor and torch.compile right.
An operator that mutates has no derivative of its own: where one is wanted, define a function, as ``softcap``
is.
"""

from typing import Any

import torch

from torch_openreg._build import DEVICE_NAME

NAME = "openreg_library::accumulate_"

torch.library.define(NAME, "(Tensor(a!) total, Tensor value, *, float weight=1.0) -> ()")


@torch.library.impl(NAME, DEVICE_NAME)
def _(total: torch.Tensor, value: torch.Tensor, *, weight: float = 1.0) -> None:
    """total += weight * value, value being of any dtype: sums of half precision in single precision."""
    total.add_(value.to(total.dtype), alpha=weight)


@torch.library.register_fake(NAME)
def _(total: torch.Tensor, value: torch.Tensor, *, weight: float = 1.0) -> None:
    torch._check(total.shape == value.shape, lambda: f"total is {total.shape} and value {value.shape}")


@torch.library.register_vmap(NAME)
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    total: torch.Tensor,
    value: torch.Tensor,
    *,
    weight: float = 1.0,
) -> tuple[None, None]:
    total_dim, value_dim = in_dims
    if total_dim is None:
        raise RuntimeError("vmap: accumulate_ cannot add a batch of values to a total that has no batch")
    total = total.movedim(total_dim, 0)
    value = value.expand(total.shape) if value_dim is None else value.movedim(value_dim, 0)
    accumulate_(total, value, weight=weight)
    return None, None


accumulate_ = torch.ops.openreg_library.accumulate_
