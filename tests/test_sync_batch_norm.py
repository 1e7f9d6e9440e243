"""The operators of torch.nn.SyncBatchNorm, with the parts of a batch as processes."""

import pytest
import torch
from torch.nn.functional import batch_norm

EPS = 1e-5
MOMENTUM = 0.3
PARTS = (2, 5, 1)  # samples of each process


def batches(dtype=torch.float32, shape=(3, 4)):
    torch.manual_seed(0)
    return torch.randn(sum(PARTS), 3, *shape, dtype=dtype)


def statistics(parts):
    """The gathered statistics and counts, as SyncBatchNorm exchanges them."""
    stats = [torch.batch_norm_stats(part, EPS) for part in parts]
    counts = torch.tensor(
        [part.numel() // part.size(1) for part in parts], dtype=torch.float32, device="openreg"
    )
    return torch.stack([mean for mean, _ in stats]), torch.stack([invstd for _, invstd in stats]), counts


@pytest.mark.parametrize("shape", [(), (3, 4)], ids=str)
def test_forward_matches_batch_norm_of_the_whole_batch(shape):
    whole = batches(shape=shape)
    weight, bias = torch.rand(3), torch.rand(3)
    running = torch.zeros(3), torch.ones(3)
    expected = batch_norm(whole, *running, weight, bias, training=True, momentum=MOMENTUM, eps=EPS)
    parts = whole.openreg().split(PARTS)
    means, invstds, counts = statistics(parts)
    synced = torch.zeros(3, device="openreg"), torch.ones(3, device="openreg")
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        parts[0], means, invstds, *synced, MOMENTUM, EPS, counts
    )
    results = [
        torch.batch_norm_elemt(part, weight.openreg(), bias.openreg(), mean, invstd, EPS) for part in parts
    ]
    torch.testing.assert_close(torch.cat(results).cpu(), expected)
    for after, before in zip(synced, running, strict=True):
        torch.testing.assert_close(after.cpu(), before)


def test_gather_with_one_count():
    x = batches().openreg().split((4, 4))
    stats = [torch.batch_norm_stats(part, EPS) for part in x]
    means, invstds = (torch.stack(values) for values in zip(*stats, strict=True))
    count = x[0].numel() // 3
    mean, invstd = torch.batch_norm_gather_stats(x[0], means, invstds, None, None, MOMENTUM, EPS, count)
    expected = torch.batch_norm_stats(torch.cat(x), EPS)
    torch.testing.assert_close((mean, invstd), expected)


def test_backward_matches_batch_norm_of_the_whole_batch():
    whole = batches().requires_grad_()
    weight, bias = torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=True)
    grad = torch.randn_like(whole)
    batch_norm(whole, None, None, weight, bias, training=True, eps=EPS).backward(grad)
    parts = whole.detach().openreg().split(PARTS)
    grads = grad.openreg().split(PARTS)
    means, invstds, counts = statistics(parts)
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        parts[0], means, invstds, None, None, MOMENTUM, EPS, counts
    )
    device_weight = weight.detach().openreg()
    reduced = [
        torch.batch_norm_backward_reduce(dy, x, mean, invstd, device_weight, True, True, True)
        for dy, x in zip(grads, parts, strict=True)
    ]
    sum_dy, sum_dy_xmu, grad_weight, grad_bias = (sum(values) for values in zip(*reduced, strict=True))
    results = [
        torch.batch_norm_backward_elemt(dy, x, mean, invstd, device_weight, sum_dy, sum_dy_xmu, counts.int())
        for dy, x in zip(grads, parts, strict=True)
    ]
    torch.testing.assert_close(torch.cat(results).cpu(), whole.grad)
    torch.testing.assert_close(grad_weight.cpu(), weight.grad)
    torch.testing.assert_close(grad_bias.cpu(), bias.grad)


def test_unrequested_gradients_are_undefined():
    x = batches().openreg()
    mean, invstd = torch.batch_norm_stats(x, EPS)
    results = torch.batch_norm_backward_reduce(x, x, mean, invstd, None, False, False, True)
    assert results[0] is None and results[1] is None and results[2] is None and results[3].shape == (3,)


def test_half_precision_accumulates_in_float():
    x = batches(torch.float16).openreg()
    mean, invstd = torch.batch_norm_stats(x, EPS)
    assert mean.dtype == invstd.dtype == torch.float32
    out = torch.batch_norm_elemt(x, None, None, mean, invstd, EPS)
    expected = batch_norm(x.cpu().float(), None, None, training=True, eps=EPS)
    assert out.dtype == torch.float16
    torch.testing.assert_close(out.cpu().float(), expected, rtol=1e-3, atol=1e-3)


def test_constant_channels_without_eps():
    mean, invstd = torch.batch_norm_stats(torch.ones(4, 3, device="openreg"), 0.0)
    assert mean.tolist() == [1, 1, 1] and invstd.tolist() == [0, 0, 0]


def test_one_count_for_each_process():
    mean = torch.zeros(2, 3, device="openreg")
    with pytest.raises(RuntimeError, match="one count for each process"):
        torch.batch_norm_gather_stats_with_counts(mean, mean, mean, None, None, 0.1, EPS, mean[0, :1])


def test_one_dimension_is_an_error():
    with pytest.raises(RuntimeError, match="at least 2 dimensions, but got 1"):
        torch.batch_norm_stats(torch.ones(3, device="openreg"), EPS)
