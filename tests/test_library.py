"""Operators for the device, written in Python with torch.library: eager, derivatives, vmap, compiled."""

import pytest
import torch
from interpreter import execute

from torch_openreg.library import accumulate_, softcap


def expected(x, cap):
    return cap * torch.tanh(x / cap)


def test_the_module_is_not_imported_by_default_and_does_not_import_dynamo():
    execute(
        """
        import sys, torch, torch_openreg
        assert "torch_openreg.library" not in sys.modules
        import torch_openreg.library
        assert "torch._dynamo" not in sys.modules
        """
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_softcap_agrees_with_the_cpu(dtype):
    x = torch.linspace(-9, 9, 24, dtype=dtype).reshape(4, 6)
    for view in (x, x.t(), x[::2, 1:], x[:0]):
        torch.testing.assert_close(softcap(view.to("openreg"), 3.0).cpu(), expected(view, 3.0))
    with pytest.raises(NotImplementedError, match="openreg_library::softcap"):
        softcap(x, 3.0)


def test_softcap_has_derivatives():
    x = torch.linspace(-2, 2, 7, dtype=torch.float64, device="openreg", requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: softcap(x, 1.5), x)
    assert torch.autograd.gradgradcheck(lambda x: softcap(x, 1.5), x)


# Not "test_autograd_registration", which supports only three device types; compilation is tested below.
CHECKS = ("test_schema", "test_faketensor")


def test_opcheck():
    x = torch.randn(3, 4, device="openreg", requires_grad=True)
    torch.library.opcheck(softcap, (x, 2.0), test_utils=CHECKS)
    torch.library.opcheck(torch.ops.openreg_library.softcap_backward.default, (x, x, 2.0), test_utils=CHECKS)
    torch.library.opcheck(accumulate_.default, (x.detach(), x.detach().half()), test_utils=CHECKS)


def test_vmap():
    x = torch.randn(3, 4, 5, device="openreg")
    for dim in (0, 1, -1):
        mapped = torch.vmap(lambda x: softcap(x, 2.0), in_dims=dim)(x)
        torch.testing.assert_close(mapped, expected(x.movedim(dim, 0), 2.0))
    leaf = x.clone().requires_grad_()
    batch = torch.randn(2, *x.shape, device="openreg")
    (gradients,) = torch.autograd.grad(softcap(leaf, 2.0), leaf, batch, is_grads_batched=True)
    torch.testing.assert_close(gradients, batch * (1 - torch.tanh(x / 2) ** 2))
    totals = torch.zeros(3, 4, device="openreg")
    values = torch.randn(4, 3, device="openreg")
    torch.vmap(accumulate_, in_dims=(0, 1), out_dims=None)(totals, values)
    assert torch.equal(totals, values.t())
    torch.vmap(accumulate_, in_dims=(0, None), out_dims=None)(totals, values[:, 0])
    torch.testing.assert_close(totals, values.t() + values[:, 0])
    with pytest.raises(RuntimeError, match="an unbatched total"):
        torch.vmap(accumulate_, in_dims=(None, 0))(values[:, 0], totals)


def test_accumulate_increments_the_version_counter():
    total = torch.zeros(4, device="openreg")
    value = torch.arange(4.0).half().to("openreg")
    before = total._version
    accumulate_(total, value, weight=0.5)
    assert total.tolist() == [0, 0.5, 1, 1.5] and total._version > before


def test_compiled_operators():
    def step(x, total):
        y = softcap(x * 2, 3.0)
        accumulate_(total, y)
        return y.sum(), total * 2

    x = torch.randn(5, device="openreg")
    eager, traced = x.clone().requires_grad_(), x.clone().requires_grad_()
    totals = [torch.zeros(5, device="openreg") for _ in range(2)]
    torch._dynamo.reset()
    made = torch.compile(step, backend="aot_eager", fullgraph=True)(traced, totals[1])
    with torch.no_grad():
        reference = step(eager, totals[0])
    torch.testing.assert_close(made, reference)
    torch.testing.assert_close(totals[1], totals[0])


def test_compiled_gradients():
    x = torch.randn(5, device="openreg")
    eager, traced = x.clone().requires_grad_(), x.clone().requires_grad_()
    torch._dynamo.reset()
    softcap(eager * 2, 3.0).sum().backward()
    torch.compile(lambda x: softcap(x * 2, 3.0).sum(), backend="aot_eager", fullgraph=True)(traced).backward()
    torch.testing.assert_close(traced.grad, eager.grad)
