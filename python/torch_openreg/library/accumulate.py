"""An operator that mutates its argument.

``define`` takes the schema as text and ``impl`` a kernel for a device; ``custom_op`` calls both. The annotation
``Tensor(a!)`` in the schema is required for version counters, FakeTensor and torch.compile. A mutating operator has
no derivative; if you need one, define a functional operator such as ``softcap``.
"""

from typing import Any

import torch

from torch_openreg._name import DEVICE_NAME

NAME = "openreg_library::accumulate_"

torch.library.define(NAME, "(Tensor(a!) total, Tensor value, *, float weight=1.0) -> ()")


@torch.library.impl(NAME, DEVICE_NAME)
def _(total: torch.Tensor, value: torch.Tensor, *, weight: float = 1.0) -> None:
    """total += weight * value. ``value`` may have another dtype: half-precision values, single-precision total."""
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
        raise RuntimeError("vmap: accumulate_ cannot add batched values to an unbatched total")
    total = total.movedim(total_dim, 0)
    value = value.expand(total.shape) if value_dim is None else value.movedim(value_dim, 0)
    accumulate_(total, value, weight=weight)
    return None, None


accumulate_ = torch.ops.openreg_library.accumulate_
