"""Compares every operator of PyTorch's OpInfo database with the CPU.

By default the first sample of each operator in float32 and one other dtype, in the async schedule;
`make test-ops` compares all samples of all dtypes in all three schedules.
"""

import pytest
import torch
from agreement import ALL, DTYPES, OPERATORS, check
from exceptions import MISSING

MOST = None if ALL else 1
SCHEDULES = {"async": 0, "blocking": 1, "adversarial": 2}


def short_form(name: str) -> list[torch.dtype]:
    others = [d for d in DTYPES if d != torch.float32 and d in OPERATORS[name].supported_dtypes("cpu")]
    return [torch.float32, *others[sum(map(ord, name)) % max(1, len(others)) :][:1]]


@pytest.fixture(params=SCHEDULES if ALL else ["async"])
def schedule(request):
    import torch_openreg._C as C

    before = C.get_schedule()
    C.set_schedule(SCHEDULES[request.param], 1)
    yield request.param
    C.set_schedule(*before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str, schedule: str) -> None:
    compared = 0
    try:
        for dtype in DTYPES if ALL else short_form(name):
            compared += check(name, dtype, MOST)
    except NotImplementedError as error:
        if name in MISSING:
            pytest.xfail(f"{MISSING[name]}: {error}")
        raise
    assert name not in MISSING or compared == 0, f"{name} works: remove it from MISSING"


def test_exceptions_name_operators() -> None:
    from exceptions import RANDOM

    assert (RANDOM | set(MISSING)) <= set(OPERATORS)
