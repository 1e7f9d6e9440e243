"""What an operator does not take is refused at the call, as on the CPU, and not when its kernel runs."""

import pytest
import torch

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
