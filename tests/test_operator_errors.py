"""Invalid arguments raise at the call, as on the CPU, and not when the kernel runs."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

INVALID_NUMBERS = {
    "normal_": (lambda a: a.normal_(0, 1), lambda a: a.normal_(0, -1)),
    "bernoulli_": (lambda a: a.bernoulli_(0.5), lambda a: a.bernoulli_(2.0)),
    "uniform_": (lambda a: a.uniform_(0, 1), lambda a: a.uniform_(1, 0)),
    "random_": (lambda a: a.random_(0, 5), lambda a: a.random_(5, 2)),
    "exponential_": (lambda a: a.exponential_(1.0), lambda a: a.exponential_(-1.0)),
    "geometric_": (lambda a: a.geometric_(0.5), lambda a: a.geometric_(2.0)),
    "cauchy_": (lambda a: a.cauchy_(0, 1), lambda a: a.cauchy_(0, -1)),
    "log_normal_": (lambda a: a.log_normal_(1, 1), lambda a: a.log_normal_(1, -1)),
    "pow": (lambda a: a.long() ** 2, lambda a: a.long() ** -1),
    "fill_ of uint8": (lambda a: a.byte().fill_(3), lambda a: a.byte().fill_(300)),
    "fill_ of float16": (lambda a: a.half().fill_(3.0), lambda a: a.half().fill_(1e6)),
}


@pytest.mark.parametrize("name", INVALID_NUMBERS)
def test_invalid_numbers_raise_at_the_call_regardless_of_earlier_calls(name):
    good, bad = INVALID_NUMBERS[name]
    a = torch.ones(5, device="openreg")
    with pytest.raises(RuntimeError) as theirs:
        bad(torch.ones(5))
    for call in (bad, good, bad, good):
        if call is good:
            good(a)
            continue
        with pytest.raises(RuntimeError) as ours:
            bad(a)
        assert str(ours.value).splitlines()[0] == str(theirs.value).splitlines()[0]
    torch.openreg.synchronize()


def test_overlapping_copies_raise_at_the_call():
    a = torch.arange(5.0, device="openreg")
    with pytest.raises(RuntimeError, match="single memory location"):
        a[1:] = a[:-1]
    with pytest.raises(RuntimeError, match="single memory location"):
        a[:1].expand(4).copy_(a[:4])
    torch.openreg.synchronize()
    assert a.tolist() == [0, 1, 2, 3, 4]


def test_cpu_scalar_as_output_raises():
    host, there = torch.tensor(0.0), torch.tensor(3.0, device="openreg")
    for write in (lambda: host.add_(there), lambda: torch.add(there, 1, out=host)):
        with pytest.raises(RuntimeError, match="same device"):
            write()
    assert host.item() == 0


# Errors that CUDA raises at the call: it reads data on the host, or the arguments alone are invalid.
ERRORS_AT_THE_CALL = {
    "CPU tensor, device index": (
        lambda a: a.cpu()[a.long()],
        "indices should be either on cpu or on the same",
    ),
    "CPU values": (lambda a: a.index_put_((a.long(),), torch.ones(3)), "same device"),
    "out of a reduction on the CPU": (
        lambda a: torch.sum(a, dim=[0], out=torch.empty([])),
        "Expected out tensor",
    ),
    "complex value for index_fill_": (lambda a: a.index_fill_(0, a.long(), 1 + 1j), "complex Scalar"),
    "negative standard deviation": (lambda a: torch.normal(a, -a), "std >= 0.0"),
    "infinite range of histc": (lambda a: torch.histc(a / 0), "is not finite"),
    "lengths of segment_reduce": (
        lambda a: torch.segment_reduce(a, "sum", lengths=torch.tensor([5], device="openreg"), unsafe=False),
        "lengths",
    ),
    "_assert_async of three elements": (lambda a: torch._assert_async(a), "ambiguous"),
    "classes of nll_loss in a floating dtype": (
        lambda a: torch.nn.functional.nll_loss(a.view(1, 3), a[:1]),
        "Long",
    ),
    "conversion to bits8": (lambda a: a.to(torch.bits8), "not implemented for 'Bits8'"),
}


@pytest.mark.parametrize("name", ERRORS_AT_THE_CALL)
def test_errors_that_cuda_raises_at_the_call(name):
    call, message = ERRORS_AT_THE_CALL[name]
    a = torch.tensor([1.0, 2.0, 0.0], device="openreg")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=message):
            call(a)
    torch.openreg.synchronize()


def test_index_that_is_the_written_tensor_raises_at_the_call():
    index = torch.tensor([2, 1, 0], device="openreg")
    with pytest.raises(RuntimeError, match="single memory location"):
        index.index_put_((index,), index.clone())
    torch.openreg.synchronize()
    assert index.tolist() == [2, 1, 0]


def test_isin_of_a_number_and_a_tensor():
    for device in ("cpu", "openreg"):
        found = [torch.isin(number, torch.tensor([[1, 2], [3, 4]], device=device)) for number in (3, 5, 3)]
        assert [result.tolist() for result in found] == [True, False, True]
        assert {result.shape for result in found} == {torch.Size([])}


ASSIGNMENTS = {
    "rows": (([0, 2],), (2, 4)),
    "elements": (([0, 2], [1, 3]), (2,)),
    "one value": (([0, 2],), ()),
    "a mask": (([True, False, True],), (2, 4)),
    "a mask of all dimensions": (([[True] * 4] * 3,), ()),
    "float indices": (([0.0, 1.0],), ()),
    "a mask of another length": (([True, False],), ()),
    "a mask of too many dimensions": (([[[True]]],), ()),
    "values of another shape": (([0, 1],), (3,)),
    "indices that do not broadcast": (([0, 1], [0, 1, 2]), ()),
    "too many indices": (([0], [0], [0]), ()),
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_index_assignment_agrees_with_the_cpu(name):
    indices, shape = ASSIGNMENTS[name]

    def put(device: str) -> list | str:
        a = torch.zeros(3, 4, device=device)
        try:
            a[tuple(torch.tensor(index, device=device) for index in indices)] = torch.ones(
                shape, device=device
            )
        except (RuntimeError, IndexError) as error:
            return str(error).splitlines()[0]
        return a.tolist()

    assert put("openreg") == put("cpu")
    torch.openreg.synchronize()


def large(*shape: int, dtype: torch.dtype = torch.float32) -> Callable[[str], torch.Tensor]:
    """Function that creates a tensor on a device. Most are too large for a dry run."""
    return lambda device: torch.ones(*shape, device=device, dtype=dtype)


INVALID_CALLS = {
    "the bias of a linear layer": (F.linear, [large(500, 200), large(300, 200), large(200)]),
    "the channels of a convolution": (F.conv2d, [large(2, 4, 200, 200), large(8, 3, 3, 3)]),
    "the bias of a convolution": (F.conv2d, [large(2, 3, 200, 200), large(8, 3, 3, 3), large(7)]),
    "the dtype of a convolution": (F.conv2d, [large(2, 3, 200, 200), large(8, 3, 3, 3, dtype=torch.float64)]),
    "an invalid dimension of an in-place operator": (
        lambda a: a.cumsum_(0) + a.cumsum_(5),
        [large(500, 200)],
    ),
    "the delta of a loss": (
        lambda a: F.huber_loss(a, a, delta=1.0) + F.huber_loss(a, a, delta=0.0),
        [large(500, 200)],
    ),
    "more samples than categories": (lambda a: a.multinomial(300), [large(500, 200)]),
    "max of an empty tensor": (torch.max, [large(0, 200)]),
    "boundaries of two dimensions": (torch.bucketize, [large(500, 200), large(2, 3)]),
    "the target of a loss": (F.cross_entropy, [large(2, 5, 200, 200), large(2, 200, 199, dtype=torch.int64)]),
    "indices and values of different sizes": (
        lambda a, i, v: a.put_(i, v),
        [large(500, 200), large(3, dtype=torch.int64), large(4)],
    ),
    "an output that is an input": (
        lambda a, i: torch.gather(a, 0, i, out=a),
        [large(5), large(5, dtype=torch.int64)],
    ),
    "an output that is an input of a cross product": (
        lambda a, b: torch.linalg.cross(a, b, out=b),
        [large(5, 3), large(5, 3)],
    ),
    "an output that is one of the inputs of cat": (
        lambda a, b: torch.cat([a, b], out=b),
        [large(500, 200), large(500, 200)],
    ),
    "a copy of another shape": (lambda a, b: a.copy_(b), [large(500, 200), large(200, 500)]),
    "an in-place result larger than its tensor": (
        lambda a, b: a.logical_and_(b),
        [large(500, 1), large(500, 200)],
    ),
    "an output that is an input and would be resized": (
        lambda a, b: torch.add(a, b, out=torch.empty(0, device=a.device)) + torch.add(a, b, out=a),
        [large(500, 1), large(500, 200)],
    ),
    "a total weight of another dtype": (
        lambda g, a, i: torch.ops.aten.nll_loss_backward(g, a, i, None, 1, -100, g.double()),
        [large(1), large(500, 200), large(500, dtype=torch.int64)],
    ),
    "an unknown string": (lambda a: F.gelu(a, approximate="nearly"), [large(500, 200)]),
}


@pytest.mark.parametrize("name", INVALID_CALLS)
def test_argument_errors_of_kernels_raise_at_the_call(name):
    call, arguments = INVALID_CALLS[name]
    with pytest.raises((RuntimeError, IndexError)) as theirs:
        call(*(make("cpu") for make in arguments))
    with pytest.raises((RuntimeError, IndexError)) as ours:
        call(*(make("openreg") for make in arguments))
    assert (ours.type, str(ours.value).splitlines()[0]) == (theirs.type, str(theirs.value).splitlines()[0])
    torch.openreg.synchronize()


def test_attention_with_dropout_probability_one():
    q = torch.ones(1, 2, 3, 4, device="openreg")
    assert F.scaled_dot_product_attention(q, q, q, dropout_p=1.0).abs().max().item() == 0
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.scaled_dot_product_attention(q, q, q, dropout_p=1.5)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_output_of_a_failed_call_keeps_its_memory():
    """The kernel resizes its output, then raises because the output overlaps an input."""
    y = torch.arange(600.0, device="openreg")
    x = torch.zeros(200, device="openreg")
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.cat([x, y], out=x)
    x.fill_(3)
    assert x.sum().item() == 3 * x.numel() == x.cpu().sum().item()
    del x, y
    torch.openreg.empty_cache()  # merges the blocks; aliases own no memory


IN_PLACE = {
    "addr_ of a vector": ((10,), lambda x, ones: x.addr_(ones(5), ones(10))),
    "addr_ of a number": ((), lambda x, ones: x.addr_(ones(5), ones(10))),
    "addr_ of a row": ((1, 10), lambda x, ones: x.addr_(ones(5), ones(10))),
    "addr_ of another size": ((4, 10), lambda x, ones: x.addr_(ones(5), ones(10))),
    "logical_or_ without elements": ((0, 1, 3), lambda x, ones: x.logical_or_(ones(0, 10, 3))),
    "logical_and_": ((1, 3), lambda x, ones: x.logical_and_(ones(2, 3))),
    "add_": ((1, 3), lambda x, ones: x.add_(ones(2, 3))),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_operators_in_place_do_not_resize(name):
    size, call = IN_PLACE[name]
    for device in ("cpu", "openreg"):
        x = torch.full(size, 2.0, device=device)
        with pytest.raises(RuntimeError, match=r"doesn't match|size mismatch|2D tensor expected"):
            call(x, lambda *sizes, device=device: torch.ones(*sizes, device=device))
        assert x.shape == size and (x == 2).all()


def test_copies_of_a_tensor_without_memory():
    x = torch.ones(4, device="openreg")
    x.untyped_storage().resize_(0)
    for call in (
        x.cpu,
        lambda: x.to("openreg:1"),
        lambda: x.copy_(torch.ones(4)),
        lambda: torch.ones(4).copy_(x),
    ):
        with pytest.raises(RuntimeError, match="has a storage without memory"):
            call()
