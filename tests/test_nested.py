"""Nested tensors, strided and jagged, compared with the CPU."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F

LAYOUTS = [torch.strided, torch.jagged]


def parts() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, 4), torch.randn(5, 4), torch.randn(3, 4)]


def nested(device: str, layout: torch.layout = torch.strided, requires_grad: bool = False) -> torch.Tensor:
    return torch.nested.nested_tensor(parts(), device=device, layout=layout, requires_grad=requires_grad)


def same(mine: torch.Tensor, theirs: torch.Tensor) -> None:
    assert mine.device == torch.device("openreg:0")
    assert mine.is_nested == theirs.is_nested
    if not theirs.is_nested:
        torch.testing.assert_close(mine.cpu(), theirs)
        return
    mine, theirs = mine.unbind(), theirs.unbind()
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_creation_and_copies(layout):
    same(nested("openreg", layout), nested("cpu", layout))
    same(nested("cpu", layout).to("openreg"), nested("cpu", layout))
    assert nested("openreg", layout).cpu().device.type == "cpu"
    as_nested = torch.nested.as_nested_tensor([p.openreg() for p in parts()], layout=layout)
    same(as_nested, nested("cpu", layout))


OPERATORS = {
    "add": lambda n: n + n,
    "scale": lambda n: n * 3,
    "relu": lambda n: n.relu(),
    "gelu": lambda n: F.gelu(n),
    "softmax": lambda n: n.softmax(-1),
    "layer_norm": lambda n: F.layer_norm(
        n, (4,), torch.ones(4, device=n.device), torch.zeros(4, device=n.device)
    ),
    "linear": lambda n: F.linear(n, torch.eye(4)[:3].to(n.device)),
    "padded": lambda n: torch.nested.to_padded_tensor(n, 0.0),
    "neg": lambda n: -n,
    "clone": lambda n: n.clone(),
    "transposed": lambda n: torch.matmul(n, n.transpose(-1, -2)),
    "sum": lambda n: n.sum(-1, keepdim=True),
    "unbind": lambda n: n.unbind()[1],
    "half": lambda n: n.to(torch.float16).float(),
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_operators_and_their_gradients(operator, layout):
    seen = []
    for device in ("cpu", "openreg"):
        data = nested(device, layout, requires_grad=True)
        try:
            result = operator(data)
            whole = torch.nested.to_padded_tensor(result, 0.0) if result.is_nested else result
            whole.square().sum().backward()
        except (RuntimeError, NotImplementedError) as error:
            seen.append(error)
            continue
        seen.append((result.detach(), data.grad))
    if isinstance(seen[0], Exception):
        assert isinstance(seen[1], type(seen[0]))
        return
    for mine, theirs in zip(seen[1], seen[0], strict=True):
        same(mine, theirs)


def test_elementwise_operators_are_launched():
    data = nested("openreg")
    (data + data).relu()
    with torch.openreg.assert_no_sync():
        (data + data).relu()


def test_attention():
    torch.manual_seed(0)
    heads = [torch.randn(2, length, 8) for length in (3, 5)]
    results = []
    for device in ("cpu", "openreg"):
        q = torch.nested.nested_tensor(heads, device=device)
        results.append(F.scaled_dot_product_attention(q, q, q))
    same(results[1], results[0])


def test_in_place_operators():
    mine, theirs = nested("openreg"), nested("cpu")
    for n in (mine, theirs):
        n.mul_(2)
        n[0].fill_(7)
        n.neg_()
    same(mine, theirs)


def test_transformer_layer():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0).eval()
    with torch.no_grad():
        expected = layer(nested("cpu"))
        same(layer.openreg()(nested("openreg")), expected)


def test_strided_nested_tensors_are_copied_and_pickled():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).to("openreg")
    for again in (pickle.loads(pickle.dumps(nested)), copy.copy(nested)):
        assert again.device.type == "openreg"
        assert [part.tolist() for part in again.unbind()] == [[1, 1], [1, 1, 1]]


def test_padded_dense_to_jagged():
    """Without the length of the result, it depends on the offsets."""
    padded = torch.arange(24.0).view(2, 4, 3)
    offsets = torch.tensor([0, 3, 5])
    expected = torch.ops.aten._padded_dense_to_jagged_forward(padded, [offsets])
    for length in (None, 5):
        found = torch.ops.aten._padded_dense_to_jagged_forward(padded.openreg(), [offsets.openreg()], length)
        torch.testing.assert_close(found.cpu(), expected)
