"""Operators that run as functions of the driver (make test-discrete): results, dtypes, strides, and which fall back."""

import copy
import subprocess
import sys

import pytest
import torch
from library_checks import check, check_gradients, fallbacks, needs_functions

from torch_openreg import _C

pytestmark = needs_functions

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]

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
    "erf",
    "abs",
]


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
    for dtype in FLOATS:
        check(function, a.to(dtype))
    check(function, torch.arange(1, 5), falls_back=name in ("ceil", "floor"))  # integers are converted
    check(function, torch.empty(0, 3))
    out = torch.empty(0, device="openreg")
    assert not fallbacks(lambda: function(a.to("openreg"), out=out)) if name != "relu" else True


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "function", [torch.relu, torch.sigmoid, torch.tanh, torch.sqrt, torch.exp, torch.log]
)
def test_gradients(function, dtype):
    a = (torch.linspace(-3, 3, 24) if function in (torch.relu, torch.tanh) else torch.rand(24) + 0.5).to(
        dtype
    )
    tolerances = {} if dtype in (torch.float32, torch.float64) else {"rtol": 2e-2, "atol": 2e-2}
    check_gradients(function, a.view(4, 6), **tolerances)
    check_gradients(function, a.view(4, 6).t(), **tolerances)


def test_other_dtypes_fall_back():
    """The kernel library has no complex numbers."""
    a = torch.ones(6, dtype=torch.complex64)
    check(torch.neg, a, falls_back=True)
    check(torch.add, a, a, falls_back=True)
    check(torch.add, torch.ones(3, dtype=torch.complex64), torch.ones(3), falls_back=True)


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
    for dtype in FLOATS:
        check(lambda t: t.sum(0), torch.randn(7, 3).to(dtype))
        check(lambda t: t.mean(1), torch.randn(7, 3).to(dtype))
    check(lambda t: t.sum(0), torch.ones(3, 4, dtype=torch.bool))
    check(lambda t: t.sum(), torch.empty(0, 3))
    check(lambda t: t.mean(0), torch.empty(0, 3))
    check(torch.max, a)
    check(torch.min, a)
    nan = torch.tensor([[1.0, float("nan")], [2.0, 3.0]])
    check(lambda t: t.amax(1), nan)


def test_matrix_products():
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    check(torch.mm, a, b)
    check(torch.mm, a.t().contiguous().t(), b)
    check(torch.bmm, torch.randn(4, 5, 7), torch.randn(4, 7, 3))
    check(torch.addmm, torch.randn(3), a, b)
    check(lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2), torch.randn(5, 3), a, b)
    for dtype in FLOATS:
        check(torch.mm, a.to(dtype), b.to(dtype))
    check(torch.baddbmm, torch.randn(4, 1, 3), torch.randn(4, 5, 7), torch.randn(4, 7, 3))
    check(torch.mm, torch.empty(5, 0), torch.empty(0, 3))
    check(torch.addmm, torch.randn(3), torch.empty(5, 0), torch.empty(0, 3))
    check(torch.mm, torch.ones(2, 2, dtype=torch.int64), torch.ones(2, 2, dtype=torch.int64), falls_back=True)


def test_fills_and_conversions():
    for dtype in (torch.float32, torch.float64, torch.int64, torch.int8, torch.bool):
        ones = torch.empty(3, 4, dtype=dtype, device="openreg")
        assert not fallbacks(lambda ones=ones: ones.fill_(1)[:, ::2].zero_())
        assert ones.cpu().tolist() == torch.tensor([[0, 1, 0, 1]] * 3, dtype=dtype).tolist()
    source = torch.randn(4, 6) * 10
    for to in (torch.float64, torch.int64, torch.int16, torch.bool, torch.float16, torch.complex64):
        assert torch.equal(source.to("openreg").t().to(to).cpu(), source.t().to(to))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_conversions_round_to_nearest_even(dtype):
    """All bits to float32 and back, and numbers between two neighbors."""
    bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    low = bits.view(dtype)
    assert torch.equal(low.to("openreg").float().cpu().nan_to_num(7), low.float().nan_to_num(7))
    numbers = torch.cat(
        [low.float(), low.float() * 1.0003, torch.tensor([65519.9, 65520.0, 1e-8, 3e-8, 1e30])]
    )
    check(lambda t: t.to(dtype), numbers, rtol=0, atol=0)


def test_numbers_that_the_dtype_cannot_hold():
    for dtype, number in (
        (torch.int32, 1 << 40),
        (torch.uint8, 300),
        (torch.float16, 1e10),
        (torch.int64, float("inf")),
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            torch.zeros(3, dtype=dtype, device="openreg").fill_(number)
    check(lambda t: t > 1e10, torch.ones(3, dtype=torch.float16))
    check(lambda t: t.fill_(float("inf")), torch.ones(3))
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.ones(3, device="openreg").expand(4, 3).fill_(2)


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


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32])
def test_numbers_of_the_host(dtype):
    """Numbers become arguments of the functions, not copies."""
    a = torch.arange(-6, 6).reshape(3, 4).to(dtype)
    for function in (
        lambda t: t + 3,
        lambda t: 3 + t,
        lambda t: torch.add(t, 3, alpha=2),
        lambda t: t - 3,
        lambda t: torch.sub(t, 3, alpha=2),
        lambda t: 3 - t,
        lambda t: t * 3,
        lambda t: -2 * t,
        lambda t: t / 3,
        lambda t: 3 / (t + 7),
        lambda t: t > 2,
        lambda t: t.add(torch.tensor(2)),
        lambda t: t.clone().add_(1).mul_(2),
    ):
        check(function, a)
    if dtype.is_floating_point:
        zeros = torch.tensor([0.0, -0.0, 1.0, float("inf"), float("nan")], dtype=dtype)
        for number in (0.0, -1.0, float("inf"), float("nan"), 1e-40):
            # The sign of a NaN is that of the processor.
            check(lambda t, n=number: torch.signbit((t * n).cpu().nan_to_num()).to(t.device), zeros)
            check(lambda t, n=number: t / n, zeros)


def test_numbers_do_not_synchronize():
    a = torch.ones(4, device="openreg")
    a + 1
    with torch.openreg.assert_no_sync():
        assert ((a * 2 + 1 - a / 4 > 1) == True).device.type == "openreg"  # noqa: E712


def test_output_forms():
    a, b = torch.randn(3, 4), torch.randn(4)
    there = a.to("openreg"), b.to("openreg")
    out = torch.empty(0, device="openreg")
    assert not fallbacks(lambda: torch.add(*there, out=out))
    torch.testing.assert_close(out.cpu(), a + b)
    wide = torch.empty(3, 4, dtype=torch.float64, device="openreg")
    assert not fallbacks(lambda: torch.mul(*there, out=wide))
    torch.testing.assert_close(wide.cpu(), (a * b).double())
    strided = torch.zeros(4, 3, device="openreg").t()
    torch.sub(*there, out=strided)
    torch.testing.assert_close(strided.cpu(), a - b)
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(*there, out=torch.empty(3, 4, dtype=torch.int64, device="openreg"))
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.add(*there, out=torch.empty(3, 4))
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        there[1].add_(there[0])


def test_tensors_of_two_devices_are_an_error():
    a, b = torch.ones(2, 2, device="openreg:0"), torch.ones(2, 2, device="openreg:1")
    for function in (torch.add, torch.mm, lambda x, y: x.addmm(y, y), torch.bmm):
        with pytest.raises(RuntimeError, match=r"same device|3D tensor"):
            function(a, b)
    assert (b + b).device.index == 1 and (b @ b).tolist() == [[2, 2], [2, 2]]


def test_many_threads_resolve_the_same_functions():
    """In a new process, whose table of handles is empty."""
    code = """
import threading, torch
x = torch.ones(100).to("openreg")
start = threading.Barrier(8)
results = []
def work():
    start.wait()
    results.append(((x + x) * x - x / 2).sum())
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads], [t.join() for t in threads]
assert [r.item() for r in results] == [150.0] * 8
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_functions_in_a_graph():
    x = torch.arange(6.0, device="openreg")
    graph = torch.openreg.Graph() if hasattr(torch.openreg, "Graph") else torch.accelerator.Graph()
    with torch.openreg.graph(graph):
        y = (x * 2 + 1).relu().sum() + torch.arange(3, 7, device="openreg").sum()
    x.fill_(1)
    graph.replay()
    assert y.item() == 18 + 18


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
    assert support["aten::add.Tensor"] == support["aten::_softmax"] == "driver"
    assert support["aten::nonzero"] == "fallback" and support["aten::addmv"] == "composite"


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
