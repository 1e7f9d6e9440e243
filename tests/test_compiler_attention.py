"""Attention in compiled functions: forward and backward have the values of the CPU."""

import contextlib

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_attention(dropout):
    """Forward and backward; with dropout, only that it runs: the CPU has other random numbers."""
    shape = (2, 4, 6, 8)

    def attend(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)

    def results(device, function):
        torch.manual_seed(0)
        inputs = [torch.randn(shape).to(device).requires_grad_() for _ in range(3)]
        result = function(*inputs)
        result.square().sum().backward()
        return [result.detach().cpu(), *(x.grad.cpu() for x in inputs)]

    found = results("openreg", torch.compile(attend))
    if dropout == 0:
        assert_close(found, results("cpu", attend))
    assert all(x.isfinite().all() for x in found)


@pytest.mark.parametrize(
    ("backend", "masked", "dynamic"),
    [
        (None, False, False),
        (None, True, True),
        (SDPBackend.EFFICIENT_ATTENTION, False, False),
        (SDPBackend.OVERRIDEABLE, False, False),
    ],
)
def test_attention_with_grouped_queries(backend, masked, dynamic):
    def results(device, compiled):
        def attend(q, k, v, mask):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)

        generator = torch.Generator().manual_seed(0)
        tensors = [torch.randn(2, heads, 6, 8, generator=generator) for heads in (4, 2, 2)]
        inputs = [x.to(device).requires_grad_() for x in tensors]
        mask = torch.ones(6, 6, dtype=torch.bool, device=device).tril() if masked else None
        function = torch.compile(attend, dynamic=dynamic) if compiled else attend
        with contextlib.nullcontext() if backend is None or device == "cpu" else sdpa_kernel(backend):
            result = function(*inputs, mask)
        result.square().sum().backward()
        return [result.detach().cpu(), *(x.grad.cpu() for x in inputs)]

    assert_close(results("openreg", True), results("cpu", False))
