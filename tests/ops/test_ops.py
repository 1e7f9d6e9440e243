"""Compares every operator of PyTorch's OpInfo database with the CPU.

By default one or two dtypes of each operator with all samples in the async schedule, others each day (agreement.py);
`make test-ops` compares all samples of all dtypes in all three schedules. `OPENREG_TEST_DAY=3` selects a day.
"""

import pytest
from agreement import ALL, DTYPES, OPERATORS, check
from exceptions import MISSING, RANDOM, REJECTED_BY_THE_CPU, ROUNDED

SCHEDULES = {"async": 0, "blocking": 1, "adversarial": 2}


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
    tried = compared = 0
    try:
        for dtype in DTYPES:
            one = check(name, dtype)
            tried, compared = tried + one[0], compared + one[1]
    except NotImplementedError as error:
        if name in MISSING:
            pytest.xfail(f"{MISSING[name]}: {error}")
        raise
    if name in MISSING or name in REJECTED_BY_THE_CPU:
        assert compared == 0, f"{name} works: remove it from the exceptions"
    elif tried:
        assert compared > 0, f"{name}: the CPU rejected all {tried} samples, so nothing was compared"
    else:
        pytest.skip("no dtype is due today")


def test_exceptions_name_operators() -> None:
    assert (RANDOM | set(MISSING) | set(ROUNDED) | REJECTED_BY_THE_CPU) <= set(OPERATORS)


def test_all_cases_run_within_a_week() -> None:
    from agreement import is_due

    if not ALL:
        due = [is_due("add", number) for number in range(14)]
        assert due.count(True) == 2 and due[:7] == due[7:]
