"""Operators use the values that host arguments have at the call, however late the kernel runs.

tests/ops/test_host_tensors.py tests every operator; the tests here cover each kind of argument that holds host data.
"""

import pytest
import torch
from blocked_stream import held

DEVICE = "openreg"


@pytest.fixture
def library():
    with torch.library._scoped_library("host_arguments", "DEF") as made:
        made.define("scale(Tensor x, Tensor? by) -> Tensor")
        made.define("scale_all(Tensor x, Tensor[] by) -> Tensor")
        made.define("scale_some(Tensor x, Tensor?[] by) -> Tensor")
        for key in ("CPU", "Meta"):
            made.impl("scale", lambda x, by: x * by, key)
            made.impl("scale_all", lambda x, by: x * by[0] * by[1], key)
            made.impl("scale_some", lambda x, by: x * by[1], key)
        yield torch.ops.host_arguments


def test_index_put_with_a_host_index_that_changes():
    cache = torch.zeros(8, device=DEVICE)
    values = torch.arange(1.0, 9.0).to(DEVICE)
    position = torch.tensor(0)
    with held(torch.openreg.current_stream()):
        for i in range(8):
            cache.index_put_((position,), values[i])
            position += 1
    assert cache.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_index_with_a_host_index_that_changes():
    x = torch.arange(10.0).to(DEVICE)
    number = torch.tensor(3)
    with held(torch.openreg.current_stream()):
        picked = torch.ops.aten.index(x, [number])
        number.fill_(7)
    assert picked.item() == 3


@pytest.mark.parametrize("name", ["scale", "scale_all", "scale_some"])
def test_optional_tensors_and_lists(library, name):
    x = torch.ones(4, device=DEVICE)
    numbers = [torch.tensor(2.0), torch.tensor(3.0)]
    argument, factor = {
        "scale": (numbers[0], 2),
        "scale_all": (numbers, 6),
        "scale_some": ([None, numbers[1]], 3),
    }[name]
    operator = getattr(library, name)
    operator(x, argument)  # later calls hit the launch cache
    torch.openreg.synchronize()
    with held(torch.openreg.current_stream()):
        made = operator(x, argument)
        for number in numbers:
            number.zero_()
    assert made.tolist() == [factor] * 4


def test_a_list_of_integers_that_torchscript_changes():
    @torch.jit.script
    def sums(x, dims: list[int]):
        first = x.sum(dims)
        dims[0] = 1
        return first

    x = torch.arange(9.0).reshape(3, 3)
    with torch.inference_mode():  # without autograd, no other code copies the list
        there = x.to(DEVICE)
        sums(there, [0])
        torch.openreg.synchronize()
        with held(torch.openreg.current_stream()):
            made = sums(there, [0])
    assert torch.equal(made.cpu(), x.sum(0))


def test_a_list_of_tensors_that_torchscript_changes():
    @torch.jit.script
    def joined(a, b):
        both = [a, b]
        made = torch.cat(both)
        both[0] = b
        return made

    a, b = torch.zeros(2, device=DEVICE), torch.ones(2, device=DEVICE)
    with held(torch.openreg.current_stream()):
        made = joined(a, b)
    assert made.tolist() == [0, 0, 1, 1]


def test_a_host_scalar_in_a_list_of_outputs():
    there, here = torch.ones(3, device=DEVICE), torch.tensor(1.0)
    try:
        torch._foreach_add_([there, here], 1)
    except RuntimeError as error:
        assert "device" in str(error)
        assert here.item() == 1
    else:
        assert here.item() == 2 and there.tolist() == [2, 2, 2]


def test_lstm_cell_rejects_host_tensors():
    gates, state = torch.zeros(2, 16, device=DEVICE), torch.zeros(2, 4, device=DEVICE)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ops.aten._thnn_fused_lstm_cell(gates, gates, state, torch.zeros(16), torch.zeros(16))
