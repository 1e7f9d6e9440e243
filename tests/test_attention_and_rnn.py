"""Attention, recurrent layers and convolutions, for which PyTorch calls other operators than on the CPU."""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel


def close(mine: torch.Tensor, theirs: torch.Tensor) -> None:
    assert mine.is_openreg
    torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    "options", [{}, {"bias": False}, {"bidirectional": True, "num_layers": 2, "batch_first": True}]
)
def test_recurrent_layers(kind, options):
    torch.manual_seed(0)
    model = kind(5, 7, **options)
    data = torch.randn(4, 3, 5, requires_grad=True)
    output, _ = model(data)
    output.square().sum().backward()
    expected = [output.detach(), data.grad, *[p.grad.clone() for p in model.parameters()]]
    model.zero_grad()
    model.openreg()
    there = data.detach().openreg().requires_grad_()
    output, _ = model(there)
    output.square().sum().backward()
    for mine, theirs in zip(
        [output.detach(), there.grad, *[p.grad for p in model.parameters()]], expected, strict=True
    ):
        close(mine, theirs)


def test_lstm_does_not_launch_a_kernel_per_time_step():
    model = nn.LSTM(5, 7, num_layers=2, batch_first=True).openreg()
    data = torch.randn(3, 50, 5, device="openreg")
    model(data)
    before = torch.openreg.operator_totals().launches
    model(data)
    assert torch.openreg.operator_totals().launches - before < 50


@pytest.mark.parametrize("train_first", [True, False])
def test_lstm_is_trained_and_validated_in_turn(train_first):
    """The kernel returns a workspace for backward only in grad mode."""
    model = nn.LSTM(8, 6).openreg()
    data = torch.randn(5 + train_first, 3, 8, device="openreg")  # not the shapes of another test
    for step in range(4):
        with torch.set_grad_enabled(step % 2 != train_first):
            output, _ = model(data)
            close(output.detach(), copy.deepcopy(model).cpu()(data.cpu())[0].detach())
            if torch.is_grad_enabled():
                output.sum().backward()
    assert model.weight_ih_l0.grad.isfinite().all()


def test_lstm_dropout_is_between_layers_only():
    torch.manual_seed(0)
    model = nn.LSTM(5, 7, num_layers=2, dropout=0.5).openreg()
    data = torch.randn(4, 3, 5, device="openreg")
    first, second = model(data)[0], model(data)[0]
    assert not torch.equal(first, second)
    assert (first != 0).all()
    model.eval()
    assert torch.equal(model(data)[0], model(data)[0])


def test_lstm_input_size_error():
    with pytest.raises(RuntimeError, match="Expected 5, got 6"):
        nn.LSTM(5, 7).openreg()(torch.randn(4, 3, 6, device="openreg"))


def test_autocast_runs_an_lstm_in_bfloat16():
    with torch.autocast("openreg", dtype=torch.bfloat16):
        output, _ = nn.LSTM(5, 7).openreg()(torch.randn(4, 3, 5, device="openreg"))
    assert output.dtype == torch.bfloat16


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell])
def test_gradcheck_of_cells(cell):
    torch.manual_seed(0)
    model = cell(3, 4).double().openreg()
    data = torch.randn(2, 3, dtype=torch.float64, device="openreg", requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: model(x), (data,))


@pytest.mark.parametrize("kind", [nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d])
def test_convolutions(kind):
    torch.manual_seed(0)
    layer = kind(4, 6, 3, stride=2, padding=1, groups=2)
    dims = 2 if kind is nn.ConvTranspose2d else int(kind.__name__[4])
    data = torch.randn(2, 4, *[9] * dims, requires_grad=True)
    layer(data).square().sum().backward()
    expected = [data.grad, layer.weight.grad.clone(), layer.bias.grad.clone()]
    layer.zero_grad()
    layer.openreg()
    there = data.detach().openreg().requires_grad_()
    layer(there).square().sum().backward()
    for mine, theirs in zip([there.grad, layer.weight.grad, layer.bias.grad], expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-3, atol=1e-3)


def mask_named(name):
    if name is None:
        return None
    mask = torch.randn(2, 1, 6, 6) if name == "float" else torch.rand(2, 1, 6, 6) > 0.3
    if name == "bool":
        mask[..., 0] = True
    return mask


CASES = [
    c for c in itertools.product((False, True), (None, "float", "bool"), (False, True)) if not (c[0] and c[1])
]


@pytest.mark.parametrize(("causal", "mask", "grouped"), CASES)
def test_attention(causal, mask, grouped):
    torch.manual_seed(0)
    heads = 2 if grouped else 4
    data = [torch.randn(2, 4, 6, 8), torch.randn(2, heads, 6, 8), torch.randn(2, heads, 6, 8)]
    mask = mask_named(mask)
    seen = []
    for device in ("cpu", "openreg"):
        inputs = [t.clone().to(device).requires_grad_() for t in data]
        there = None if mask is None else mask.to(device)
        output = F.scaled_dot_product_attention(
            *inputs, attn_mask=there, is_causal=causal, enable_gqa=grouped
        )
        output.square().sum().backward()
        seen.append([output.detach(), *[t.grad for t in inputs]])
    assert output.grad_fn.name() == "ScaledDotProductFusedAttentionOverrideableBackward0"
    for theirs, mine in zip(*seen, strict=True):
        close(mine, theirs)


def test_gradcheck_of_attention_with_dropout():
    data = torch.randn(1, 2, 3, 4, device="openreg", dtype=torch.float64, requires_grad=True)

    def attend(x):
        torch.manual_seed(0)
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.4)

    assert attend(data).grad_fn.name() == "ScaledDotProductFusedAttentionOverrideableBackward0"
    assert torch.autograd.gradcheck(attend, (data,), check_undefined_grad=False)


SHAPES = {
    "broadcast batch of keys": ((4, 2, 6, 8), (1, 2, 6, 8), None, {}),
    "one query head": ((2, 1, 6, 8), (2, 8, 6, 8), None, {}),
    "heads not divisible": ((2, 6, 6, 8), (2, 4, 6, 8), None, {}),
    "groups not divisible": ((2, 6, 6, 8), (2, 4, 6, 8), None, {"enable_gqa": True}),
    "groups without enable_gqa": ((2, 6, 6, 8), (2, 2, 6, 8), None, {}),
    "groups": ((2, 6, 6, 8), (2, 2, 6, 8), None, {"enable_gqa": True}),
    "3-d mask": ((2, 3, 6, 8), (2, 3, 6, 8), (3, 6, 6), {}),
    "broadcast mask": ((2, 3, 6, 8), (2, 3, 5, 8), (1, 1, 1, 5), {}),
    "mask of another length": ((2, 3, 6, 8), (2, 3, 5, 8), (6, 4), {}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_attention_accepts_and_rejects_the_same_shapes_as_the_cpu(name):
    query, key, mask, options = SHAPES[name]
    torch.manual_seed(0)
    tensors = [torch.randn(query), torch.randn(key), torch.randn(key)]
    tensors.append(None if mask is None else torch.randn(mask))

    def attend(device: str) -> torch.Tensor | str:
        there = [None if tensor is None else tensor.to(device) for tensor in tensors]
        try:
            return F.scaled_dot_product_attention(*there[:3], attn_mask=there[3], **options).cpu()
        except RuntimeError as error:
            return str(error).splitlines()[0]

    ours, theirs = attend("openreg"), attend("cpu")
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        torch.testing.assert_close(ours, theirs)


def test_sdpa_kernel_selects_the_backend():
    q = torch.randn(2, 3, 6, 8, device="openreg", requires_grad=True)
    with sdpa_kernel(SDPBackend.MATH):
        out = F.scaled_dot_product_attention(q, q, q)
        (first,) = torch.autograd.grad(out.sum(), q, create_graph=True)
        first.sum().backward()  # the fused kernel has no second derivative
    for fused, name in (
        (SDPBackend.FLASH_ATTENTION, "Overrideable"),
        (SDPBackend.OVERRIDEABLE, "Overrideable"),
        (SDPBackend.EFFICIENT_ATTENTION, "Efficient"),
    ):
        with sdpa_kernel(fused):
            assert name in F.scaled_dot_product_attention(q, q, q).grad_fn.name()
            with pytest.raises(RuntimeError, match="does not support these arguments"):
                F.scaled_dot_product_attention(q, q[:1], q[:1])
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), pytest.raises(RuntimeError, match="is disabled"):
        F.scaled_dot_product_attention(q, q, q)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"mask": True}], ids=str)
def test_memory_efficient_attention(options, each_schedule):
    torch.manual_seed(0)
    cpu = [torch.randn(2, 3, 6, 8, requires_grad=True) for _ in range(3)]
    ours = [x.detach().openreg().requires_grad_() for x in cpu]
    given = {key: value for key, value in options.items() if key != "mask"}
    mask = torch.rand(6, 6) > 0.3 if "mask" in options else None
    expected = F.scaled_dot_product_attention(*cpu, attn_mask=mask, **given)
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        result = F.scaled_dot_product_attention(
            *ours, attn_mask=None if mask is None else mask.openreg(), **given
        )
    torch.testing.assert_close(result.cpu(), expected)
    expected.square().sum().backward()
    result.square().sum().backward()
    for a, b in zip(ours, cpu, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad)


def test_memory_efficient_attention_matches_its_meta_kernel():
    q = torch.randn(2, 3, 6, 8)
    results = [
        torch.ops.aten._scaled_dot_product_efficient_attention(*[q.to(device)] * 3, None, True)
        for device in ("openreg", "meta")
    ]
    for ours, meta in zip(*results, strict=True):
        assert (ours.shape, ours.dtype) == (meta.shape, meta.dtype)


@pytest.mark.parametrize("seed", range(4))
def test_lstm_kernel_uses_the_grad_mode_of_the_launching_thread(seed):
    """The LSTM kernel saves tensors for backward by the grad mode of the launching thread, not of its own thread."""
    with torch.openreg.schedule("adversarial", seed=seed):
        model, data = nn.LSTM(3, 4).openreg(), torch.randn(2, 1, 3).openreg()
        for _ in range(2):
            output, _ = model(data)
            with torch.no_grad():
                torch.openreg.synchronize()
            output.sum().backward()
        torch.openreg.synchronize()


def test_multihead_attention_for_inference():
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(96, 16, batch_first=True).eval()
    x = torch.randn(8, 32, 96)
    with torch.no_grad():
        expected, _ = module(x, x, x, need_weights=False)
        result, weights = module.to("openreg")(*[x.to("openreg")] * 3, need_weights=False)
    assert weights is None
    torch.testing.assert_close(result.cpu(), expected)


def test_attention_with_symbolic_sizes():
    def attention(q):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    compiled = torch.compile(attention, backend="eager", dynamic=True)
    for length in (8, 9, 10):
        q = torch.randn(2, 2, length, 16)
        torch.testing.assert_close(compiled(q.to("openreg")).cpu(), attention(q))


def test_memory_of_attention_with_dropout():
    """The forward holds two tensors of the size of the scores, the backward four, with the mask of the dropout."""
    torch.openreg.empty_cache()
    scores = 4 * 2 * 256 * 256 * 4

    def peak(step) -> float:
        before = torch.openreg.memory_allocated()
        torch.openreg.reset_peak_memory_stats()
        step()
        return (torch.openreg.max_memory_allocated() - before) / scores

    x = torch.randn(4, 2, 256, 8, device="openreg", requires_grad=True)
    results = []
    assert peak(lambda: results.append(F.scaled_dot_product_attention(x, x, x, dropout_p=0.5))) < 2.2
    assert peak(lambda: results[0].sum().backward()) < 3.3
