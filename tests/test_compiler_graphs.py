"""mode="reduce-overhead": compiled functions are captured into graphs of the device, and outputs are owned as on CUDA."""

import pytest
import torch
from test_compiler import losses, model
from torch._dynamo.utils import counters
from torch.testing import assert_close

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
