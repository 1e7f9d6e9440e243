"""Autograd: PyTorch's own engine, on threads of its own, over our kernels."""

import torch


def test_double_backward():
    x = torch.tensor([2.0, 3.0], device="openreg", requires_grad=True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [12, 18]


def test_gradcheck():
    torch.manual_seed(0)
    a = torch.randn(3, 4, dtype=torch.float64, device="openreg", requires_grad=True)
    b = torch.randn(4, 2, dtype=torch.float64, device="openreg", requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, y: (x @ y).tanh().logsumexp(0), (a, b))


def test_functional_transforms():
    x = torch.arange(6.0, device="openreg").reshape(3, 2)
    assert torch.func.vmap(torch.dot)(x, x).tolist() == [1, 13, 41]
    assert torch.func.grad(lambda t: t.sin().sum())(x).cpu().equal(x.cpu().cos())
    value, tangent = torch.func.jvp(lambda t: t * t, (x,), (torch.ones_like(x),))
    assert tangent.cpu().equal(2 * x.cpu()) and value.is_openreg


def test_checkpointing_repeats_the_random_numbers():
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    x = torch.ones(1000, device="openreg", requires_grad=True)
    y = checkpoint(lambda t: torch.nn.functional.dropout(t, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_inference_mode():
    with torch.inference_mode():
        x = torch.ones(3, device="openreg")
        assert (x + x).is_inference()
