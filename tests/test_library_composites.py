"""Operators that are composed of functions of the driver (make test-discrete), compared with the CPU."""

import pytest
import torch
from library_checks import check, check_gradients, fallbacks, needs_functions
from torch.nn import functional as nn

pytestmark = needs_functions

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
LOW = {torch.float16: {"rtol": 2e-3, "atol": 2e-3}, torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2}}


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_softmax(function, dtype) -> None:
    a = (torch.randn(3, 4, 5) * 10).to(dtype)
    for dim in (0, 1, -1):
        check(lambda t, d=dim: function(t, d), a, **LOW.get(dtype, {}))
        check_gradients(lambda t, d=dim: function(t, d), a, **LOW.get(dtype, {}))
    check(lambda t: function(t, 0), a.transpose(0, 2)[::2], **LOW.get(dtype, {}))
    check(lambda t: function(t, 0), torch.empty(0, 3, dtype=dtype))


def test_softmax_is_stable() -> None:
    inf = float("inf")
    rows = torch.tensor([[1e30, 1e30, -1e30], [-inf, 0.0, 1.0], [-inf, -inf, -inf], [1.0, float("nan"), 2.0]])
    check(lambda t: torch.softmax(t, 1), rows)
    check(lambda t: torch.log_softmax(t, 1), rows)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.softmax(rows.to("openreg"), 2)
    with pytest.raises(RuntimeError, match="Half type only"):
        torch._softmax(rows.to("openreg"), 1, True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_layer_norm(dtype) -> None:
    a, weight, bias = torch.randn(4, 3, 6) * 3 + 5, torch.rand(3, 6) + 0.5, torch.randn(3, 6)
    a, weight, bias = a.to(dtype), weight.to(dtype), bias.to(dtype)
    tolerances = LOW.get(dtype, {"rtol": 1e-4, "atol": 1e-4})
    check_gradients(lambda t, w, b: nn.layer_norm(t, (3, 6), w, b), a, weight, bias, **tolerances)
    check_gradients(lambda t, w: nn.layer_norm(t, (6,), w), a, weight[0], **tolerances)
    check_gradients(lambda t: nn.layer_norm(t, (6,)), a.transpose(0, 1), **tolerances)
    check(lambda t: nn.layer_norm(t, (6,)), a[:0], **tolerances)
    with pytest.raises(RuntimeError, match="Given normalized_shape"):
        nn.layer_norm(a.to("openreg"), (5,))


def test_layer_norm_of_large_numbers() -> None:
    """The variance is that of the centered elements; the mean is rounded."""
    a = torch.randn(3, 8) + 1e4
    result = nn.layer_norm(a.to("openreg"), (8,)).cpu()
    torch.testing.assert_close(result, nn.layer_norm(a.double(), (8,)).float(), rtol=0, atol=2e-3)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate, dtype) -> None:
    a = torch.linspace(-6, 6, 60).view(5, 12).to(dtype)
    check_gradients(lambda t: nn.gelu(t, approximate=approximate), a, **LOW.get(dtype, {}))
    check(lambda t: nn.gelu(t.t()[::2], approximate=approximate), a, **LOW.get(dtype, {}))


@pytest.mark.parametrize("dtype", FLOATS)
def test_silu_and_clamp_and_pow(dtype) -> None:
    a = torch.linspace(-6, 6, 61).to(dtype)
    tolerances = LOW.get(dtype, {})
    check_gradients(nn.silu, a, **tolerances)
    check_gradients(lambda t: t.clamp(-1, 2), a)
    check(lambda t: t.clamp(min=0.5), a)
    check(lambda t: t.clamp_max(0.5), a)
    check(lambda t: t.clamp_max(float("nan")), a)
    for exponent in (2, 3, 0.5, -0.5, -1, 1.7, 0):
        check(lambda t, e=exponent: t.abs().add(0.5) ** e, a, **tolerances)
    check_gradients(lambda t: t**2, a)


def test_pow_of_integers() -> None:
    check(lambda t: t**2, torch.arange(-3, 4))
    check(lambda t: t**5, torch.arange(-3, 4), falls_back=True)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64])
def test_ternary(dtype) -> None:
    a, b, c = ((torch.rand(3, 4) * 5 + 1).to(dtype) for _ in range(3))
    check(lambda x, y, z: torch.addcmul(x, y, z, value=2), a, b, c[0])
    check(lambda x, y, z: x.clone().t().addcmul_(y.t(), z.t()), a, b, c)
    if dtype.is_floating_point:
        check(lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), a, b, c)
        for weight in (0.1, 0.5, 0.9, 1.0, -0.3):
            check(lambda x, y, w=weight: torch.lerp(x, y, w), a, b)
        assert torch.equal(torch.lerp(a.to("openreg"), b.to("openreg"), 1.0).cpu(), b)
    with pytest.raises(RuntimeError, match="must match the size"):
        torch.addcmul(a.to("openreg"), b.to("openreg"), torch.ones(5, device="openreg"))


def test_where_and_masks() -> None:
    a, b = torch.randn(3, 4), torch.randn(4)
    check(lambda x, y: torch.where(x > 0, x, y), a, b)
    check(lambda x: torch.where(x > 0, x, 0.0), a)
    check(lambda x: torch.where(x > 0, 1, 0), a)
    check(lambda x, y: torch.where(x > 0, x, y), a, b.double())
    check(lambda x: x.masked_fill(x > 0, -1.5), a)
    check(lambda x: x.masked_fill(x[0] > 0, float("-inf")), a)
    check(lambda x: x.masked_fill(x > 0, x[0, 0]), a)
    check(lambda x: torch.logical_not(x > 0), a)
    check(lambda x: torch.logical_not(x), a.round())
    check(lambda x: torch.logical_and(x > 0, x < 1), a)
    check(lambda x: torch.logical_or(x > 1, x.floor()), a)
    with pytest.raises(RuntimeError, match=r"boolean|bool"):
        a.to("openreg").masked_fill(a.to("openreg"), 1)
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.zeros(3, dtype=torch.int32, device="openreg").masked_fill(
            torch.ones(3, dtype=torch.bool, device="openreg"), 1e20
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64])
def test_triangles(dtype) -> None:
    a = torch.ones(2, 4, 5).to(dtype)
    for diagonal in (-5, -1, 0, 2, 6):
        check(lambda t, d=diagonal: t.tril(d), a)
        check(lambda t, d=diagonal: t.triu(d), a)
        check(lambda t, d=diagonal: t.clone().tril_(d), a)


def test_ranges() -> None:
    for arguments in ((5,), (2, 9), (9, 2, -3), (0.0, 1.0, 0.1), (-3, 3, 0.5)):
        there = []
        assert not fallbacks(lambda a=arguments, t=there: t.append(torch.arange(*a, device="openreg")))
        assert torch.equal(there[0].cpu(), torch.arange(*arguments))
    with pytest.raises(RuntimeError, match="step must be nonzero"):
        torch.arange(0, 5, 0, device="openreg")
    with torch.openreg.assert_no_sync():
        torch.arange(1000, device="openreg")


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool])
def test_indexing(dtype) -> None:
    a = (torch.randn(5, 4, 3) * 5).to(dtype)
    index = torch.tensor([3, 0, 3, 1])
    for dim, of in ((0, index), (1, index), (-1, index % 3)):
        check(lambda t, i, d=dim: t.index_select(d, i), a, of)
        check(lambda t, i, d=dim: t.transpose(0, 1).index_select(d, i), a.transpose(0, 1), of)
    positions = torch.randint(3, (2, 4, 3))
    for dim in range(3):
        check(lambda t, i, d=dim: t.gather(d, i), a, positions)
    check(lambda t, i: t.index_select(0, i), a, index.int())
    check(lambda t, i: t.index_select(0, i), a, index[:0])
    check(lambda t, i: t.gather(0, i), a, positions[:0])
    if dtype.is_floating_point:
        source = torch.randn(4, 4, 3).to(dtype)
        for dim in range(3):
            check(lambda t, i, s, d=dim: t.scatter_add(d, i, s), a, positions, source, **LOW.get(dtype, {}))
        check_gradients(lambda t, i: t.gather(1, i), a, positions, **LOW.get(dtype, {}))
    with pytest.raises(IndexError, match="out of range"):
        a.to("openreg").index_select(3, index.to("openreg"))
    with pytest.raises(RuntimeError, match="Size does not match"):
        a.to("openreg").gather(0, torch.zeros(2, 9, 3, dtype=torch.int64, device="openreg"))


@pytest.mark.parametrize("dtype", FLOATS)
def test_embedding(dtype) -> None:
    weight, tokens = torch.randn(7, 4).to(dtype), torch.randint(7, (3, 5))
    check_gradients(lambda w, t: nn.embedding(t, w), weight, tokens, **LOW.get(dtype, {}))
    check_gradients(lambda w, t: nn.embedding(t, w, padding_idx=2), weight, tokens, **LOW.get(dtype, {}))


def test_an_index_that_is_out_of_range() -> None:
    weight = torch.ones(3, 2, device="openreg")
    nn.embedding(torch.tensor([1, 7], device="openreg"), weight)
    with pytest.raises(torch.AcceleratorError, match=r"index out of range: 7|index 7 is out of range"):
        torch.openreg.synchronize()
    assert weight.sum().item() == 6


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction, dtype) -> None:
    scores, targets = torch.randn(6, 5).to(dtype), torch.tensor([0, 4, 2, -100, 2, 1])
    weight = torch.rand(5).to(dtype) + 0.5
    tolerances = LOW.get(dtype, {})
    check_gradients(lambda s, t: nn.cross_entropy(s, t, reduction=reduction), scores, targets, **tolerances)
    check_gradients(
        lambda s, t: nn.cross_entropy(s[0], t[1], reduction=reduction), scores, targets, **tolerances
    )
    check_gradients(
        lambda s, t: nn.cross_entropy(s, t, reduction=reduction, ignore_index=2), scores, targets.abs() % 5,
        **tolerances,
    )  # fmt: skip
    check(
        lambda s, t, w: nn.nll_loss(s, t, w, reduction=reduction), scores, targets, weight, **tolerances
    )  # fmt: skip
    check(lambda s, t: nn.nll_loss(s, t, reduction=reduction), scores[:0], targets[:0])
    with pytest.raises(ValueError, match="batch_size"):
        nn.nll_loss(scores.to("openreg"), targets[:2].to("openreg"))


def test_an_ignored_target_may_have_an_infinite_score() -> None:
    scores = torch.tensor([[0.0, float("-inf")], [1.0, 2.0]])
    check(lambda s, t: nn.nll_loss(s, t), scores, torch.tensor([-100, 1]))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_mse_loss(reduction, dtype) -> None:
    a, b = torch.randn(4, 3).to(dtype), torch.randn(4, 3).to(dtype)
    check_gradients(lambda x, y: nn.mse_loss(x, y, reduction=reduction), a, b, **LOW.get(dtype, {}))


def test_cat_and_stack() -> None:
    a, b = torch.randn(2, 3), torch.randn(4, 3)
    check(lambda x, y: torch.cat([x, y]), a, b)
    check(lambda x, y: torch.cat([x.t(), y.t()], -1), a, b)
    check(lambda x, y: torch.cat([x, y.double()]), a, b)
    check(lambda x: torch.stack([x, x * 2], 1), a)
    check(lambda x, y: torch.cat([x, y.new_empty(0), y[:0]]), a, b)
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        torch.cat([a.to("openreg"), b.to("openreg")], 1)


def test_norms_and_gradient_clipping() -> None:
    a = torch.randn(3, 4)
    for order in (1, 2, float("inf")):
        check(lambda t, o=order: torch.linalg.vector_norm(t, o), a)
        check(lambda t, o=order: torch.linalg.vector_norm(t, o, dim=1, keepdim=True), a)
    check(torch.linalg.vector_norm, a.half())
    check(lambda t: torch.linalg.vector_norm(t, 3), a, falls_back=True)

    def clip(t: torch.Tensor) -> list[torch.Tensor]:
        t = t.clone()
        t.grad = t * 2
        return [torch.nn.utils.clip_grad_norm_([t], 0.5), t.grad]

    check(clip, a)


@pytest.mark.parametrize("function", [torch.argmax, torch.argmin])
def test_positions_of_extrema(function) -> None:
    a = torch.tensor([[3.0, 5.0, 5.0], [float("nan"), 9.0, 1.0], [-1.0, -1.0, -2.0]])
    check(function, a)
    check(lambda t: function(t, 0), a)
    check(lambda t: function(t, -1, keepdim=True), a)
    check(lambda t: function(t.t(), 1), a)
    check(function, torch.randint(9, (4, 5)))
    with pytest.raises((RuntimeError, IndexError), match="Expected reduction dim"):
        function(torch.empty(0, device="openreg"))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal, dtype) -> None:
    query, key, value = (torch.randn(2, 3, 6, 8).to(dtype) for _ in range(3))
    tolerances = LOW.get(dtype, {"rtol": 1e-4, "atol": 1e-5})
    check_gradients(
        lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, is_causal=causal), query, key, value, **tolerances
    )  # fmt: skip


def test_attention_with_a_mask() -> None:
    """A row in which nothing is allowed gives 0."""
    query = torch.randn(1, 2, 4, 8)
    allowed = torch.ones(4, 4, dtype=torch.bool).tril()
    allowed[2] = False
    check(lambda q, m: nn.scaled_dot_product_attention(q, q, q, attn_mask=m), query, allowed)
