"""What an operator does not take is refused at the call, as on the CPU, and not when its kernel runs."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

REFUSED = {
    "normal_": (lambda a: a.normal_(0, 1), lambda a: a.normal_(0, -1)),
    "bernoulli_": (lambda a: a.bernoulli_(0.5), lambda a: a.bernoulli_(2.0)),
    "uniform_": (lambda a: a.uniform_(0, 1), lambda a: a.uniform_(1, 0)),
    "random_": (lambda a: a.random_(0, 5), lambda a: a.random_(5, 2)),
    "exponential_": (lambda a: a.exponential_(1.0), lambda a: a.exponential_(-1.0)),
    "geometric_": (lambda a: a.geometric_(0.5), lambda a: a.geometric_(2.0)),
    "cauchy_": (lambda a: a.cauchy_(0, 1), lambda a: a.cauchy_(0, -1)),
    "log_normal_": (lambda a: a.log_normal_(1, 1), lambda a: a.log_normal_(1, -1)),
    "pow": (lambda a: a.long() ** 2, lambda a: a.long() ** -1),
    "fill_ of bytes": (lambda a: a.byte().fill_(3), lambda a: a.byte().fill_(300)),
    "fill_ of halves": (lambda a: a.half().fill_(3.0), lambda a: a.half().fill_(1e6)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_numbers_are_refused_at_the_call_whatever_was_called_before(name):
    good, bad = REFUSED[name]
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


def test_copies_onto_themselves_are_refused_at_the_call():
    a = torch.arange(5.0, device="openreg")
    with pytest.raises(RuntimeError, match="single memory location"):
        a[1:] = a[:-1]
    with pytest.raises(RuntimeError, match="single memory location"):
        a[:1].expand(4).copy_(a[:4])
    torch.openreg.synchronize()
    assert a.tolist() == [0, 1, 2, 3, 4]


def test_a_number_on_the_host_is_not_written_by_the_device():
    host, there = torch.tensor(0.0), torch.tensor(3.0, device="openreg")
    for write in (lambda: host.add_(there), lambda: torch.add(there, 1, out=host)):
        with pytest.raises(RuntimeError, match="same device"):
            write()
    assert host.item() == 0


PUTS = {
    "rows": (([0, 2],), (2, 4)),
    "elements": (([0, 2], [1, 3]), (2,)),
    "one value": (([0, 2],), ()),
    "a mask": (([True, False, True],), (2, 4)),
    "a mask of all": (([[True] * 4] * 3,), ()),
    "fractions": (([0.0, 1.0],), ()),
    "a mask of another length": (([True, False],), ()),
    "a mask of too many dimensions": (([[[True]]],), ()),
    "values of another shape": (([0, 1],), (3,)),
    "indices that do not go together": (([0, 1], [0, 1, 2]), ()),
    "too many indices": (([0], [0], [0]), ()),
}


@pytest.mark.parametrize("name", PUTS)
def test_assignments_are_refused_at_the_call_as_on_the_cpu(name):
    indices, shape = PUTS[name]

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
    """More than a kernel is asked about before it is launched."""
    return lambda device: torch.ones(*shape, device=device, dtype=dtype)


WRONG = {
    "the bias of a linear layer": (F.linear, [large(500, 200), large(300, 200), large(200)]),
    "the channels of a convolution": (F.conv2d, [large(2, 4, 200, 200), large(8, 3, 3, 3)]),
    "the bias of a convolution": (F.conv2d, [large(2, 3, 200, 200), large(8, 3, 3, 3), large(7)]),
    "the dtype of a convolution": (F.conv2d, [large(2, 3, 200, 200), large(8, 3, 3, 3, dtype=torch.float64)]),
    "a dimension in place": (lambda a: a.cumsum_(0) + a.cumsum_(5), [large(500, 200)]),
    "the delta of a loss": (
        lambda a: F.huber_loss(a, a, delta=1.0) + F.huber_loss(a, a, delta=0.0),
        [large(500, 200)],
    ),
    "as many samples as there are": (lambda a: a.multinomial(300), [large(500, 200)]),
    "the greatest of none": (torch.max, [large(0, 200)]),
    "boundaries of two dimensions": (torch.bucketize, [large(500, 200), large(2, 3)]),
    "the target of a loss": (F.cross_entropy, [large(2, 5, 200, 200), large(2, 200, 199, dtype=torch.int64)]),
    "places and values": (
        lambda a, i, v: a.put_(i, v),
        [large(500, 200), large(3, dtype=torch.int64), large(4)],
    ),
    "an output that is read": (
        lambda a, i: torch.gather(a, 0, i, out=a),
        [large(5), large(5, dtype=torch.int64)],
    ),
    "an output that a cross product reads": (
        lambda a, b: torch.linalg.cross(a, b, out=b),
        [large(5, 3), large(5, 3)],
    ),
    "an output among what is read": (
        lambda a, b: torch.cat([a, b], out=b),
        [large(500, 200), large(500, 200)],
    ),
    "a copy": (lambda a, b: a.copy_(b), [large(500, 200), large(200, 500)]),
    "a change in place that would grow": (lambda a, b: a.logical_and_(b), [large(500, 1), large(500, 200)]),
    "an output that is read and would grow": (
        lambda a, b: torch.add(a, b, out=torch.empty(0, device=a.device)) + torch.add(a, b, out=a),
        [large(500, 1), large(500, 200)],
    ),
    "a word": (lambda a: F.gelu(a, approximate="nearly"), [large(500, 200)]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_kernels_refuse_is_refused_at_the_call(name):
    call, arguments = WRONG[name]
    with pytest.raises((RuntimeError, IndexError)) as theirs:
        call(*(make("cpu") for make in arguments))
    with pytest.raises((RuntimeError, IndexError)) as ours:
        call(*(make("openreg") for make in arguments))
    assert (ours.type, str(ours.value).splitlines()[0]) == (theirs.type, str(theirs.value).splitlines()[0])
    torch.openreg.synchronize()


def test_a_dropout_of_everything_leaves_nothing():
    q = torch.ones(1, 2, 3, 4, device="openreg")
    assert F.scaled_dot_product_attention(q, q, q, dropout_p=1.0).abs().max().item() == 0
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.scaled_dot_product_attention(q, q, q, dropout_p=1.5)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_output_of_a_call_that_failed_is_where_it_was():
    """The kernel makes room for its result elsewhere, then refuses to write it where it reads."""
    y = torch.arange(600.0, device="openreg")
    x = torch.zeros(200, device="openreg")
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.cat([x, y], out=x)
    x.fill_(3)
    assert x.sum().item() == 3 * x.numel() == x.cpu().sum().item()
    del x, y
    torch.openreg.empty_cache()  # joins the blocks, whose aliases own nothing
