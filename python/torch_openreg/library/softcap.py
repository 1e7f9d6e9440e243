"""A functional operator: ``custom_op`` reads the schema from the annotations.

The registrations:

- the kernel for the device. It is called below autograd, and the operators that it calls are launched;
- ``register_fake``: allocates the result, for FakeTensor and torch.compile;
- ``register_autograd``: the derivative. It calls an operator too, so that graphs show it by name;
- ``register_vmap``: the batching rule. Without it vmap calls the operator in a loop.
"""

from typing import Any

import torch

from torch_openreg._name import DEVICE_NAME


@torch.library.custom_op("openreg_library::softcap", mutates_args=(), device_types=DEVICE_NAME)
def softcap(x: torch.Tensor, cap: float) -> torch.Tensor:
    """cap * tanh(x / cap): close to x for small x, at most cap. Limits attention scores."""
    return torch.div(x, cap).tanh_().mul_(cap)


@torch.library.custom_op("openreg_library::softcap_backward", mutates_args=(), device_types=DEVICE_NAME)
def softcap_backward(grad: torch.Tensor, out: torch.Tensor, cap: float) -> torch.Tensor:
    return torch.div(out, cap).square_().neg_().add_(1).mul_(grad)


@softcap.register_fake
def _(x: torch.Tensor, cap: float) -> torch.Tensor:
    return torch.empty_like(x)


@softcap_backward.register_fake
def _(grad: torch.Tensor, out: torch.Tensor, cap: float) -> torch.Tensor:
    return torch.empty_like(out)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.cap = inputs[1]
    ctx.save_for_backward(output)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    (out,) = ctx.saved_tensors
    return softcap_backward(grad, out, ctx.cap), None


softcap.register_autograd(_backward, setup_context=_keep)


def _keep_for_second(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    grad, out, ctx.cap = inputs
    ctx.save_for_backward(grad, out)


def _second_backward(ctx: Any, grad_grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    grad, out = ctx.saved_tensors
    cap = ctx.cap
    return softcap_backward(grad_grad, out, cap), grad_grad * grad * out * (-2 / cap**2), None


softcap_backward.register_autograd(_second_backward, setup_context=_keep_for_second)


@softcap.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, cap: float) -> tuple[Any, int | None]:
    return softcap(x, cap), in_dims[0]


@softcap_backward.register_vmap
def _(
    info: Any, in_dims: tuple[int | None, ...], grad: torch.Tensor, out: torch.Tensor, cap: float
) -> tuple[Any, int]:
    grad, out = (
        tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip((grad, out), in_dims[:2], strict=True)
    )
    return softcap_backward(grad, out, cap), 0
