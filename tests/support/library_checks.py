"""Checks of operators that run as functions of the driver's kernel library."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from torch_openreg import _C

DEVICE_CODE = 1 << 5  # OR_CAP_DEVICE_CODE

needs_functions = pytest.mark.skipif(
    _C.HOST_ENGINE or not _C.driver_info()[4] & DEVICE_CODE,
    reason="no functions of the driver: make test-discrete",
)


def fallbacks(function: Callable[[], Any]) -> dict[str, int]:
    """The operators that fell back to the CPU in a call, with the number of calls."""
    before = _C.cpu_fallbacks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fallbacks; each warns once per process
        function()
    return {
        name: calls - before.get(name, 0)
        for name, calls in _C.cpu_fallbacks().items()
        if calls > before.get(name, 0)
    }


def to_device(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to("openreg") if value.dim() else value
    if isinstance(value, list | tuple):
        return type(value)(to_device(item) for item in value)
    return value


def check(function: Callable[..., Any], *arguments: Any, falls_back: bool = False, **tolerances: Any) -> None:
    """Compares with the CPU, and checks that functions of the driver were launched.

    Tensors without dimensions stay on the host, as numbers.
    """
    expected = function(*arguments)
    there = [to_device(argument) for argument in arguments]
    results = []
    used = fallbacks(lambda: results.append(function(*there)))
    assert bool(used) == falls_back, used
    compare(results[0], expected, **tolerances)


def compare(actual: Any, expected: Any, **tolerances: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert actual.device.type == "openreg"
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        torch.testing.assert_close(actual.cpu(), expected, equal_nan=True, **tolerances)
    else:
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            compare(one, other, **tolerances)


def check_gradients(function: Callable[..., Any], *arguments: Any, **tolerances: Any) -> None:
    """Compares the result and the gradients of all floating-point arguments, without a fallback.

    float16 and bfloat16 are compared with the rounded results of float64: the CPU's kernels round more often.
    """
    low = (torch.float16, torch.bfloat16)

    def run(*given: Any) -> list[torch.Tensor]:
        leaves = [
            a.detach().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
            for a in given
        ]
        result = function(*leaves)
        weights = torch.linspace(0.5, 1.5, result.numel(), dtype=torch.float64).view(result.shape)
        result.backward(weights.to(result.dtype).to(result.device))
        return [result.detach(), *(a.grad for a in leaves if isinstance(a, torch.Tensor) and a.requires_grad)]

    def is_low(a: Any) -> bool:
        return isinstance(a, torch.Tensor) and a.dtype in low

    expected = run(*(a.double() if is_low(a) else a for a in arguments))
    there = [to_device(argument) for argument in arguments]
    results = []
    used = fallbacks(lambda: results.append(run(*there)))
    assert not used, used
    dtype = next((a.dtype for a in arguments if is_low(a)), None)
    compare(results[0], [e if dtype is None else e.to(dtype) for e in expected], **tolerances)
