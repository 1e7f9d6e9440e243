"""Operators of other people, whose CPU kernels the engine borrows without knowing them."""

import pytest
import torch


@pytest.fixture
def library():
    with torch.library._scoped_library("other_people", "DEF") as made:
        yield made


def test_a_kernel_of_other_people_is_given_nothing_but_the_programs_tensors(library):
    seen = []
    library.define("head(Tensor x, int n) -> Tensor")
    library.impl("head", lambda x, n: seen.append(x.tolist()) or x[:n].clone(), "CPU")
    library.impl("head", lambda x, n: x.new_empty(n), "Meta")
    a = torch.arange(5.0, device="openreg")
    assert torch.ops.other_people.head(a, 3).tolist() == [0, 1, 2]
    assert seen == [[0, 1, 2, 3, 4]]


def test_kernels_may_be_registered_after_the_first_call(library):
    library.define("next(Tensor x) -> Tensor")
    a = torch.ones(3, device="openreg")
    with pytest.raises(NotImplementedError, match="other_people::next"):
        torch.ops.other_people.next(a)
    library.impl("next", lambda x: x + 1, "CPU")
    assert torch.ops.other_people.next(a).tolist() == [2, 2, 2]
    library.impl("next", torch.empty_like, "Meta")
    torch.ops.other_people.next(a)
    before = torch.openreg.operator_totals()
    torch.ops.other_people.next(a)
    after = torch.openreg.operator_totals()
    if torch.openreg.get_schedule().name != "blocking":
        assert (after.launches - before.launches, after.waits - before.waits) == (1, 0)


def test_kernels_of_other_people_may_keep_what_they_make(library):
    kept = {}

    def positions(x):
        if "made" not in kept:
            kept["made"] = torch.arange(4.0)
        return x + kept["made"]

    library.define("positions(Tensor x) -> Tensor")
    library.impl("positions", positions, "CPU")
    library.define("table(Tensor x) -> Tensor")
    library.impl("table", lambda x: kept.setdefault("table", torch.arange(3.0)), "CPU")
    a = torch.full((4,), 100.0, device="openreg")
    for launched in (False, True):
        if launched:
            library.impl("positions", torch.empty_like, "Meta")
            kept.clear()
        for _ in range(3):
            assert torch.ops.other_people.positions(a).tolist() == [100, 101, 102, 103]
            torch.zeros(4, device="openreg").add_(7)
    torch.ops.other_people.table(a).add_(5)
    assert torch.ops.other_people.table(a).tolist() == [0, 1, 2]
