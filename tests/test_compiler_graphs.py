"""mode="reduce-overhead": compiled functions are captured into graphs of the device, and outputs are owned as on CUDA."""

import pytest
import torch
from test_compiler import losses, model
from torch._dynamo.utils import counters
from torch._higher_order_ops import while_loop
from torch.testing import assert_close

from torch_openreg import _C
from torch_openreg._torch_versions import HAS_GRAPHS

openreg = torch.openreg
pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="Inductor's graph trees are those of CUDA"),
    pytest.mark.skipif(not HAS_GRAPHS, reason="torch has no graphs for other devices"),
]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def compiled(function):
    return torch.compile(function, mode="reduce-overhead")


def test_replays_have_the_values_of_each_call(each_schedule):
    def function(x, y):
        return (x.sin() @ y).softmax(-1)

    graphed = compiled(function)
    for _ in range(4):
        x, y = torch.randn(5, 6), torch.randn(6, 7)
        assert_close(graphed(x.openreg(), y.openreg()).cpu(), function(x, y))
    assert counters["inductor"]["cudagraph_skips"] == 0


def test_a_replay_launches_no_kernel():
    graphed = compiled(lambda x: (x @ x).relu() @ x)
    x = torch.randn(8, 8, device="openreg")
    for _ in range(3):
        graphed(x)
    with openreg.record_operator_stats():
        graphed(x)
    assert not [name for name in openreg.operator_stats() if "mm" in name or name.startswith("cpp_fused")]
    openreg.reset_operator_stats()


def test_output_is_valid_until_the_next_call():
    graphed = compiled(lambda x: x + 1)
    x = torch.zeros(4, device="openreg")
    first = graphed(x)
    assert first.tolist() == [1.0] * 4
    graphed(x + 1)
    with pytest.raises(RuntimeError, match="overwritten by a subsequent run"):
        first + 1


def test_training_has_the_losses_of_the_cpu(monkeypatch):
    expected = losses(model(), "cpu", compiled=False, steps=6)
    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda model: compile_(model, mode="reduce-overhead"))
    assert_close(losses(model(), "openreg", steps=6), expected)


def test_random_numbers_differ_in_each_replay():
    graphed = compiled(lambda x: torch.nn.functional.dropout(x, 0.5))
    x = torch.ones(1000, device="openreg")
    seen = [graphed(x).clone() for _ in range(5)]
    assert not any(torch.equal(a, b) for i, a in enumerate(seen) for b in seen[:i])


def test_mutated_input_is_not_captured():
    graphed = compiled(lambda x: x.add_(1))
    x = torch.zeros(4, device="openreg")
    for _ in range(4):
        graphed(x)
    assert x.tolist() == [4.0] * 4
    assert counters["inductor"]["cudagraph_skips"] > 0


def test_new_shapes_are_captured_again():
    graphed = torch.compile(lambda x: x.cos() * 2, mode="reduce-overhead", dynamic=True)
    for size in (3, 5, 3, 5, 3):
        x = torch.randn(size)
        assert_close(graphed(x.openreg()).cpu(), x.cos() * 2)


def test_host_part_of_a_graph_is_not_captured():
    def mixed(x, y):
        return (x + 1) * (y * 2).openreg()

    graphed = compiled(mixed)
    for _ in range(4):
        x, y = torch.randn(4), torch.randn(4)
        assert_close(graphed(x.openreg(), y).cpu(), (x + 1) * (y * 2))


# ---- What a capture leaves out


def adam(device, compile_step):
    """The parameter after each of some steps. The number of the step is a tensor on the host."""
    parameter = torch.nn.Parameter(torch.ones(3, device=device))
    optimizer = torch.optim.Adam([parameter], lr=0.1)
    step = compiled(optimizer.step) if compile_step else optimizer.step
    seen = []
    for i in range(6):
        parameter.grad = torch.full((3,), float(i % 3 + 1)).to(device)
        step()
        seen.append(parameter.detach().clone())
    return seen


def test_optimizer_with_its_state_on_the_host():
    assert_close(adam("openreg", True), adam("cpu", False), check_device=False)


class Scaled(torch.nn.Module):
    def __init__(self, counts):
        super().__init__()
        self.counts = counts
        self.register_buffer("factor", torch.tensor(0.0))

    def forward(self, x):
        if self.counts:
            self.factor.add_(1)
        return x * self.factor


@pytest.mark.parametrize("counts", [False, True])
def test_buffer_on_the_host(counts):
    module, x = Scaled(counts), torch.ones(3, device="openreg")
    graphed, seen = compiled(module), []
    for i in range(5):
        if not counts:
            module.factor.fill_(i + 1)
        seen.append(graphed(x)[0].item())
    assert seen == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: x * s,
        lambda x, s: (x - s).relu() + (x @ x),
    ],
)
@pytest.mark.parametrize("kind", [float, torch.tensor])
def test_scalar_of_the_host(function, kind):
    graphed, x = compiled(function), torch.randn(4, 4)
    for i in range(5):
        assert_close(graphed(x.openreg(), kind(i + 0.5)).cpu(), function(x, kind(i + 0.5)))


def test_result_on_the_host():
    def function(x, s):
        return x * (s * 2), s + 1

    graphed, x = compiled(function), torch.randn(4)
    for i in range(5):
        s = torch.tensor(float(i))
        on_device, on_host = graphed(x.openreg(), s)
        assert on_device.device.type == "openreg"
        assert_close((on_device.cpu(), on_host), function(x, s))


def test_scalars_of_several_dtypes():
    def function(x, factor, step):
        return x * factor, (x * 0).long() + step

    graphed, x = compiled(function), torch.randn(4)
    for i in range(5):
        factor, step = torch.tensor(i + 0.5), torch.tensor((1 << 40) + i)
        assert_close(graphed(x.openreg(), factor, step), function(x, factor, step), check_device=False)


def test_tensor_of_the_host():
    def function(x, h):
        return (x @ x) * (h * 2 + 1).sum() + h.to(x.device)

    graphed, x = compiled(function), torch.randn(4, 4)
    for i in range(5):
        h = torch.full((4,), float(i))
        assert_close(graphed(x.openreg(), h).cpu(), function(x, h))


@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_cond(device):
    def function(x, which):
        return torch.cond(which, lambda x: x + 1, lambda x: x - 1, (x * 2,)).sin() + x

    graphed, x = compiled(function), torch.randn(4)
    for which in (True, False, True, True, False):
        condition = torch.tensor(which)
        assert_close(graphed(x.openreg(), condition.to(device)).cpu(), function(x, condition))


def test_while_loop():
    def function(x):
        return while_loop(lambda x: x.sum() < 100, lambda x: (x * 2,), (x + 1,))[0] * 3

    graphed = compiled(function)
    for i in range(5):
        x = torch.full((3,), float(i))
        assert_close(graphed(x.openreg()).cpu(), function(x))


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_sizes_that_depend_on_data():
    def function(x):
        return x.unique().sum() + x.nonzero().sum() + x[x > 0].sum()

    graphed = torch.compile(function, mode="reduce-overhead", fullgraph=True)
    for i in range(5):
        x = torch.randint(-3, 3, (10 + i,)).float()
        assert_close(graphed(x.openreg()).cpu(), function(x))


@pytest.mark.parametrize("function", [torch.linalg.eigvalsh, torch.linalg.inv, torch.det])
def test_operators_that_may_synchronize(function):
    def program(x):
        return function(x @ x.T + torch.eye(4, device=x.device)) * 2

    graphed = compiled(program)
    for _ in range(5):
        x = torch.randn(4, 4)
        assert_close(graphed(x.openreg()).cpu(), program(x), atol=1e-4, rtol=1e-4)


@pytest.fixture(scope="module")
def host_results():
    with torch.library._scoped_library("test_host_results", "FRAGMENT"):

        @torch.library.custom_op("test_host_results::pair", mutates_args=())
        def pair(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * 2, torch.full((2,), 1.0)

        @pair.register_fake
        def _(x):
            return torch.empty_like(x), torch.empty(2)

        @torch.library.custom_op("test_host_results::copy", mutates_args=())
        def copy(x: torch.Tensor) -> torch.Tensor:
            return x.cpu() * 3

        @copy.register_fake
        def _(x):
            return torch.empty(x.shape)

        yield pair, copy


def test_operators_with_results_on_the_host(host_results):
    pair, copy = host_results

    def program(x):
        first, second = pair(x * 3)
        return first + 1, second + 1, copy(x + 1) + second.sum()

    graphed = compiled(program)
    for _ in range(5):
        x = torch.randn(4)
        assert_close(graphed(x.openreg()), program(x), check_device=False)


def test_a_graph_returns_no_memory_of_the_host():
    metadata = {"dtype": torch.float32, "size": (2,), "stride": (1,), "storage_offset": 0}
    with pytest.raises(RuntimeError, match="a graph of openreg cannot return a tensor of a storage on cpu"):
        _C.tensor_of_storage(metadata, torch.ones(2).untyped_storage())
