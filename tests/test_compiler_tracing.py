"""Tracing without Inductor: functions of torch.openreg in compiled functions, and results of fake operators."""

import pytest
import torch
from torch.testing import assert_close

openreg = torch.openreg


def traced(function, *args):
    """Without graph breaks."""
    torch._dynamo.reset()
    return torch.compile(function, backend="eager", fullgraph=True)(*args)


def test_functions_without_a_graph_break():
    def ask(x):
        assert openreg.is_available() and openreg.get_device_capability() and openreg.get_device_name()
        assert openreg.get_device_properties().total_memory > 0
        return x * openreg.device_count() + openreg.current_device()

    with openreg.device(1):
        assert traced(ask, torch.ones(2, device="openreg")).tolist() == [3.0, 3.0]


def test_synchronize_and_current_stream_without_a_graph_break():
    def function(x):
        stream = openreg.current_stream()
        y = x + 1
        y.record_stream(stream)
        openreg.synchronize()
        return y

    assert traced(function, torch.ones(2, device="openreg")).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_stream_context(backend):
    """The side stream runs the work inside, and the stream of the caller is current afterwards."""
    torch._dynamo.reset()
    side = openreg.Stream()

    def function(x):
        with openreg.stream(side):
            y = x.sin() * 2
        openreg.current_stream().wait_stream(side)
        return y + 1

    x = torch.ones(8, device="openreg")
    before = openreg.current_stream()
    side.wait_stream(before)
    result = torch.compile(function, backend=backend)(x)
    assert openreg.current_stream() == before
    assert_close(result.cpu(), torch.ones(8).sin() * 2 + 1)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_convolution_keeps_channels_last(backend):
    torch._dynamo.reset()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten())
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    expected = net(x)
    net.openreg()
    result = torch.compile(net, backend=backend)(x.openreg())
    assert_close(result.cpu(), expected)
    result.sum().backward()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_checkpointing_recomputes_the_same_random_numbers(backend):
    torch._dynamo.reset()

    def block(x):
        return torch.nn.functional.dropout(x.sin(), 0.5)

    def function(x):
        return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)

    x = torch.ones(500, device="openreg", requires_grad=True)
    result = torch.compile(function, backend=backend)(x)
    result.sum().backward()
    assert_close((x.grad != 0).cpu(), (result != 0).cpu())
    assert 150 < result.count_nonzero().item() < 350


def test_backend_by_name():
    from torch._dynamo.backends.registry import list_backends

    assert "openreg" in list_backends(exclude_tags=())
    x = torch.randn(6)
    compiled = torch.compile(lambda x: x.tan() + 1, backend="openreg", fullgraph=True)
    assert_close(compiled(x.openreg()).cpu(), x.tan() + 1)
