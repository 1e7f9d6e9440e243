"""The strides of results, which compiled code relies on."""

import itertools

import pytest
import torch


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("which", ["input", "weight"])
def test_convolutions_keep_channels_last(which, transposed):
    convolve = torch.nn.functional.conv_transpose2d if transposed else torch.nn.functional.conv2d
    tensors = {"input": torch.randn(2, 4, 16, 16), "weight": torch.randn(4, 4, 3, 3)}
    tensors[which] = tensors[which].contiguous(memory_format=torch.channels_last)

    def step(device: str) -> tuple[torch.Tensor, ...]:
        x, w = (
            torch.empty_strided(t.shape, t.stride(), device=device).copy_(t).requires_grad_()
            for t in tensors.values()
        )
        y = convolve(x, w)
        return y, *torch.autograd.grad(y.square().sum(), (x, w))

    for mine, theirs in zip(step("openreg"), step("cpu"), strict=True):
        assert mine.is_contiguous(memory_format=torch.channels_last)
        assert mine.stride() == theirs.stride()
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_convolutions_of_one_dimension_have_the_strides_of_the_cpu(order, channels, transposed):
    """They run as convolutions of two dimensions, which can be channels last."""

    def step(device: str) -> list[tuple[int, ...]]:
        shapes = (2, channels, 7), (4, channels, 3) if not transposed else (channels, 4, 3)
        strides = []
        for laid_out in itertools.product((True, False), repeat=2):
            x, w = (
                torch.empty_permuted(shape, order, device=device).fill_(1.0)
                if laid
                else torch.ones(shape, device=device)
                for shape, laid in zip(shapes, laid_out, strict=True)
            )
            x.requires_grad_(), w.requires_grad_()
            y = torch.convolution(x, w, None, [1], [0], [1], transposed, [0], 1)
            strides += [made.stride() for made in (y, *torch.autograd.grad(y.sum(), (x, w)))]
        return strides

    assert step("openreg") == step("cpu")


@pytest.mark.parametrize("size", [0, 3, 20])
def test_nonzero_static_has_the_strides_of_cuda(size):
    """As the Meta kernel says, on which torch.compile relies."""
    x = torch.tensor([[0, 1, 2], [3, 0, 0]])
    found = torch.nonzero_static(x.openreg(), size=size)
    assert found.stride() == (1, size)
    assert torch.equal(found.cpu(), torch.nonzero_static(x, size=size))


@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("rows", [2, 4000])
def test_nll_loss_of_images_is_contiguous(reduction, rows):
    """Also if the target is not."""
    scores = torch.randn(rows, 3, 2, 2)
    target = torch.randint(3, (2, 2, rows)).permute(2, 1, 0)
    loss = torch.nn.functional.nll_loss
    expected = loss(scores, target, reduction=reduction)
    actual = loss(scores.to("openreg"), target.to("openreg"), reduction=reduction)
    assert actual.stride() == expected.stride()
    assert torch.equal(actual.cpu(), expected)
