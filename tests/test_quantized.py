"""Quantized tensors, compared with the CPU: creation, copies, operators."""

import pytest
import torch
from torch.ao.nn import quantized as nnq

DATA = torch.linspace(-2, 2, 24).view(2, 3, 4)
SCALES, ZEROS = torch.tensor([0.1, 0.2, 0.05], dtype=torch.float64), torch.tensor([0, 3, -2])


def per_tensor(device: str, dtype: torch.dtype = torch.qint8) -> torch.Tensor:
    return torch.quantize_per_tensor(DATA.to(device), 0.1, 10, dtype)


def per_channel(device: str) -> torch.Tensor:
    return torch.quantize_per_channel(DATA.to(device), SCALES.to(device), ZEROS.to(device), 1, torch.qint8)


def same(mine: torch.Tensor, theirs: torch.Tensor) -> None:
    assert mine.device == torch.device("openreg:0")
    assert (mine.dtype, mine.shape, mine.is_quantized) == (theirs.dtype, theirs.shape, theirs.is_quantized)
    if mine.is_quantized:
        assert mine.qscheme() == theirs.qscheme()
        torch.testing.assert_close(mine.int_repr().cpu(), theirs.int_repr(), rtol=0, atol=0)
        mine, theirs = mine.dequantize(), theirs.dequantize()
    torch.testing.assert_close(mine.cpu(), theirs)


@pytest.mark.parametrize("make", [per_tensor, per_channel])
def test_quantize_and_dequantize(make):
    same(make("openreg"), make("cpu"))
    same(make("openreg").dequantize(), make("cpu").dequantize())
    same(make("openreg").clone(), make("cpu").clone())


def test_quantization_parameters():
    mine = per_tensor("openreg")
    assert (mine.q_scale(), mine.q_zero_point()) == (0.1, 10)
    channels = per_channel("openreg")
    assert channels.q_per_channel_axis() == 1
    same(channels.q_per_channel_scales(), SCALES)
    same(channels.q_per_channel_zero_points(), ZEROS)


def test_per_channel_parameters_are_copied():
    scales, zeros = SCALES.openreg(), ZEROS.openreg()
    mine = torch.quantize_per_channel(DATA.openreg(), scales, zeros, 1, torch.qint8)
    scales.fill_(99)
    del scales, zeros
    torch.ones(1000, device="openreg")
    same(mine, per_channel("cpu"))


@pytest.mark.parametrize("make", [per_tensor, per_channel])
def test_copies_between_devices(make):
    there = make("cpu").to("openreg")
    same(there, make("cpu"))
    back = there.cpu()
    assert back.device.type == "cpu"
    assert torch.equal(back.int_repr(), make("cpu").int_repr())
    same(there.to("openreg:1").to("openreg:0"), make("cpu"))


@pytest.mark.parametrize(
    "operator",
    [
        lambda q: q.view(6, 4),
        lambda q: q[:, 1:],
        lambda q: q.transpose(0, 1).contiguous(),
        lambda q: torch.relu(q),
        lambda q: torch.cat([q, q]),
        lambda q: q.max(),
        lambda q: q == q,
        lambda q: torch.clamp(q, -1, 1),
        lambda q: torch.sigmoid(q),
        lambda q: q.mean(-1),
        lambda q: torch.ops.quantized.add(q, q, 0.2, 0),
        lambda q: torch.nn.functional.max_pool1d(q, 2),
        lambda q: torch.sort(q)[0],
        lambda q: q.flip(0),
    ],
)
@pytest.mark.parametrize("dtype", [torch.qint8, torch.quint8], ids=str)
def test_operators(operator, dtype):
    try:
        expected = operator(per_tensor("cpu", dtype))
    except RuntimeError:
        with pytest.raises(RuntimeError):
            operator(per_tensor("openreg", dtype))
        return
    same(operator(per_tensor("openreg", dtype)), expected)


def test_in_place_operators():
    mine, theirs = per_tensor("openreg"), per_tensor("cpu")
    for q in (mine, theirs):
        q.relu_()
        q[0].fill_(0.5)
    same(mine, theirs)
    mine.copy_(DATA.openreg() / 2)
    theirs.copy_(DATA / 2)
    same(mine, theirs)
    with pytest.raises(RuntimeError, match="dequantize"):
        torch.empty(2, 3, 4, device="openreg").copy_(mine)


def test_empty_quantized_tensors():
    made = torch._empty_affine_quantized(
        [2, 3], scale=0.5, zero_point=1, dtype=torch.quint8, device="openreg"
    )
    assert made.device.type == "openreg"
    assert made.fill_(3.0).dequantize().tolist() == [[3.0] * 3] * 2
    assert torch.empty_like(made).q_scale() == 0.5


def test_quantized_linear():
    torch.manual_seed(0)
    layer = nnq.Linear(4, 5)
    weight = torch.quantize_per_tensor(torch.randn(5, 4), 0.05, 0, torch.qint8)
    layer.set_weight_bias(weight, torch.randn(5))
    layer.scale, layer.zero_point = 0.1, 3
    same(layer(per_tensor("openreg", torch.quint8)), layer(per_tensor("cpu", torch.quint8)))


def test_repr():
    assert "quantization_scheme=torch.per_tensor_affine" in repr(per_tensor("openreg"))


@pytest.mark.parametrize("operator", [torch.sin, torch.sum, torch.abs, lambda q: q + q, lambda q: q @ q.t()])
def test_operators_without_a_quantized_kernel_raise(operator):
    quantized = torch.quantize_per_tensor(torch.randn(2, 3), 0.1, 0, torch.qint8)
    for tensor in (quantized, quantized.to("openreg")):
        with pytest.raises(NotImplementedError, match=r"Could not run 'aten::.*Quantized"):
            operator(tensor)
