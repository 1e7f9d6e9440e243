"""Operators that run as functions of the driver (make test-discrete): results, dtypes, strides, and which fall back."""

import copy
import warnings

import pytest
import torch

from torch_openreg import _C

DEVICE_CODE = 1 << 5  # OR_CAP_DEVICE_CODE

pytestmark = pytest.mark.skipif(
    _C.HOST_ENGINE or not _C.driver_info()[4] & DEVICE_CODE,
    reason="no functions of the driver: make test-discrete",
)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fallbacks; each warns once per process
        yield


def fallbacks(function) -> dict[str, int]:
    before = _C.cpu_fallbacks()
    function()
    return {
        name: calls - before.get(name, 0)
        for name, calls in _C.cpu_fallbacks().items()
        if calls > before.get(name, 0)
    }


BINARY = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.div,
    torch.maximum,
    torch.minimum,
    lambda a, b: torch.add(a, b, alpha=3),
    lambda a, b: torch.sub(a, b, alpha=2),
    torch.eq,
    torch.ne,
    torch.lt,
    torch.le,
    torch.gt,
    torch.ge,
]
UNARY = [
    "neg",
    "ceil",
    "cos",
    "exp",
    "floor",
    "log",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "sin",
    "sqrt",
    "tanh",
    "relu",
]


def check(function, *arguments, falls_back=False) -> None:
    """Compares with the CPU, and checks that the driver's function was launched."""
    expected = function(*arguments)
    there = [a.to("openreg") if isinstance(a, torch.Tensor) and a.dim() else a for a in arguments]
    result = None

    def call():
        nonlocal result
        result = function(*there)

    used = fallbacks(call)
    assert bool(used) == falls_back, used
    assert result.device.type == "openreg" and result.dtype == expected.dtype
    torch.testing.assert_close(result.cpu(), expected, equal_nan=True)


@pytest.mark.parametrize("function", BINARY)
def test_binary_operators(function):
    a, b = torch.randn(6, 8), torch.randn(6, 8)
    check(function, a, b)
    check(function, a, torch.randn(8))  # broadcasts
    check(function, a, torch.randn(6, 1))
    if function not in (torch.maximum, torch.minimum):
        check(function, a, 2.5)
    check(function, a.t(), b.t()[:, ::1])
    check(function, a.double(), b)  # promotes
    check(function, a, torch.randint(5, (6, 8)) + 1)
    check(function, torch.empty(0, 8), b[:0])


@pytest.mark.parametrize("function", [torch.add, torch.mul, torch.eq, torch.lt])
def test_integers(function):
    a, b = torch.randint(-5, 5, (4, 3)), torch.randint(-5, 5, (4, 3))
    check(function, a, b)
    check(function, a.int(), b.int())
    check(function, a, 3)
    check(function, a, 1.5)


@pytest.mark.parametrize("name", UNARY)
def test_unary_operators(name):
    function = getattr(torch, name)
    a = torch.rand(5, 4, 3) + 0.5
    check(function, a)
    check(function, a.transpose(0, 2)[::2])
    check(function, a.double())
    check(function, a.half(), falls_back=True)  # the driver has no functions for it


def test_strided_views_and_in_place_operators():
    a = torch.randn(6, 8)
    there = a.to("openreg")
    view, expected = there[::2, 1::3], a.clone()
    assert not fallbacks(lambda: view.mul_(3).add_(view, alpha=2).relu_())
    expected[::2, 1::3] = (a[::2, 1::3] * 9).relu()
    torch.testing.assert_close(there.cpu(), expected)
    with pytest.raises(RuntimeError, match=r"internal overlap|more than one element"):
        there[0, :1].expand(5).add_(1)


def test_reductions():
    a = torch.randn(4, 5, 6)
    for function in (
        lambda t: t.sum(),
        lambda t: t.sum(1),
        lambda t: t.sum((0, 2), keepdim=True),
        lambda t: t.mean(),
        lambda t: t.mean(-1),
        lambda t: t.amax(0),
        lambda t: t.amin((0, 1)),
        lambda t: t.sum(dtype=torch.float64),
    ):
        check(function, a)
        check(function, a.transpose(0, 2))
    check(lambda t: t.sum(0), torch.randint(9, (7, 3)))
    check(lambda t: t.sum(0), torch.randn(7, 3).bfloat16(), falls_back=True)
    nan = torch.tensor([[1.0, float("nan")], [2.0, 3.0]])
    check(lambda t: t.amax(1), nan)


def test_matrix_products():
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    check(torch.mm, a, b)
    check(torch.mm, a.t().contiguous().t(), b)
    check(torch.bmm, torch.randn(4, 5, 7), torch.randn(4, 7, 3))
    check(torch.addmm, torch.randn(3), a, b)
    check(lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2), torch.randn(5, 3), a, b)
    check(torch.mm, a.half(), b.half(), falls_back=True)


def test_fills_and_conversions():
    for dtype in (torch.float32, torch.float64, torch.int64, torch.int8, torch.bool):
        ones = torch.empty(3, 4, dtype=dtype, device="openreg")
        assert not fallbacks(lambda ones=ones: ones.fill_(1)[:, ::2].zero_())
        assert ones.cpu().tolist() == torch.tensor([[0, 1, 0, 1]] * 3, dtype=dtype).tolist()
    source = torch.randn(4, 6) * 10
    for to in (torch.float64, torch.int64, torch.int16, torch.bool, torch.float16, torch.complex64):
        assert torch.equal(source.to("openreg").t().to(to).cpu(), source.t().to(to))


def test_every_byte_is_a_bool():
    x = torch.tensor([0, 1, 2, 255], dtype=torch.uint8).to("openreg").view(torch.bool)
    assert x.to(torch.int32).tolist() == [0, 1, 1, 1]
    assert (x == True).tolist() == [False, True, True, True]  # noqa: E712
    assert torch.where(x, 1.0, 2.0).tolist() == [2.0, 1.0, 1.0, 1.0]


def test_training_without_fallbacks():
    """The step of a multilayer perceptron runs on functions of the driver."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4), torch.nn.Tanh()
    )
    x = torch.randn(10, 8)
    there = copy.deepcopy(model).to("openreg")

    def train(model, x):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
        for _ in range(5):
            optimizer.zero_grad()
            y = model(x)
            loss = (y * y).mean()
            loss.backward()
            optimizer.step()
        return loss

    on_device = x.to("openreg")
    losses = []
    assert not fallbacks(lambda: losses.append(train(there, on_device)))
    torch.testing.assert_close(losses[0].cpu(), train(model, x))


def test_tensors_can_be_printed():
    a = torch.tensor([[1.5, float("inf")], [-2.0, 0.25]], device="openreg")
    assert repr(a) == repr(a.cpu())[:-1] + ", device='openreg:0')"


def test_dropout_and_attention_work():
    torch.manual_seed(0)
    x = torch.ones(1000, device="openreg")
    dropped = torch.nn.functional.dropout(x, 0.25)
    assert 0.6 < (dropped != 0).float().mean().item() < 0.9
    q = torch.randn(2, 3, 5, 4)
    there = q.to("openreg")
    result = torch.nn.functional.scaled_dot_product_attention(there, there, there)
    torch.testing.assert_close(result.cpu(), torch.nn.functional.scaled_dot_product_attention(q, q, q))


def test_errors_of_the_shape_are_raised_at_the_call():
    a = torch.randn(2, 3, device="openreg")
    with pytest.raises(RuntimeError, match="must match the size"):
        a + torch.randn(4, device="openreg")
    with pytest.raises(RuntimeError, match=r"cannot be multiplied|mat1 and mat2"):
        a @ a


def test_fallback_error_mode_permits_functions_of_the_driver():
    a = torch.randn(4, device="openreg")
    with torch.openreg.fallback("error"):
        assert (a + 1).device.type == "openreg"
        with pytest.raises(RuntimeError, match="sort"):
            a.sort()


def test_ops_command_shows_the_functions_of_the_driver() -> None:
    support = {name: support for name, support, _ in _C.op_support("aten")}
    assert support["aten::add.out"] == support["aten::mm.out"] == support["aten::relu"] == "driver"
    assert support["aten::nonzero"] == "fallback" and support["aten::add.Tensor"] == "composite"


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_recurrent_layers(kind, dtype) -> None:
    torch.manual_seed(0)
    host = kind(3, 4, num_layers=2, batch_first=True, dtype=dtype)
    device = copy.deepcopy(host).to("openreg")
    x = torch.randn(2, 5, 3, dtype=dtype)
    results = []
    for layer, data in ((host, x), (device, x.to("openreg"))):
        out, _ = layer(data)
        out.square().sum().backward()
        results.append([out.detach(), *(p.grad for p in layer.parameters())])
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual.cpu(), expected)
