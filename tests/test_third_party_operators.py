"""Third-party operators, whose CPU kernels the host engine runs on device memory."""

import pytest
import torch


@pytest.fixture
def library():
    with torch.library._scoped_library("third_party", "DEF") as made:
        yield made


def test_third_party_kernel_is_called_only_with_the_callers_tensors(library):
    seen = []
    library.define("head(Tensor x, int n) -> Tensor")
    library.impl("head", lambda x, n: seen.append(x.tolist()) or x[:n].clone(), "CPU")
    library.impl("head", lambda x, n: x.new_empty(n), "Meta")
    a = torch.arange(5.0, device="openreg")
    assert torch.ops.third_party.head(a, 3).tolist() == [0, 1, 2]
    assert seen == [[0, 1, 2, 3, 4]]


def test_kernels_may_be_registered_after_the_first_call(library):
    library.define("next(Tensor x) -> Tensor")
    a = torch.ones(3, device="openreg")
    with pytest.raises(NotImplementedError, match="third_party::next"):
        torch.ops.third_party.next(a)
    library.impl("next", lambda x: x + 1, "CPU")
    assert torch.ops.third_party.next(a).tolist() == [2, 2, 2]
    library.impl("next", torch.empty_like, "Meta")
    torch.ops.third_party.next(a)
    before = torch.openreg.operator_totals()
    torch.ops.third_party.next(a)
    after = torch.openreg.operator_totals()
    if torch.openreg.get_schedule().name != "blocking":
        assert (after.launches - before.launches, after.waits - before.waits) == (1, 0)


def test_third_party_kernels_may_keep_tensors_they_create(library):
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
            assert torch.ops.third_party.positions(a).tolist() == [100, 101, 102, 103]
            torch.zeros(4, device="openreg").add_(7)
    torch.ops.third_party.table(a).add_(5)
    assert torch.ops.third_party.table(a).tolist() == [0, 1, 2]
