"""Python numbers as operands: results have the dtype and the values of the CPU's."""

import itertools

import pytest
import torch
from agreement import close
from torch.testing._internal.common_methods_invocations import binary_ufuncs

DTYPES = (torch.bool, torch.int32, torch.float16, torch.float32, torch.complex64)
NUMBERS = (True, 2, 1.5, 1.5j)
SIZES = ((), (3,), (20,))  # the last is larger than a dry run


def result(function, *args):
    try:
        return function(*args).cpu()
    except Exception as error:
        return type(error)


def takes_numbers(function) -> bool:
    return any(
        isinstance(result(function, *args), torch.Tensor)
        for args in ((torch.ones(1), 2), (torch.ones(1, dtype=torch.int32), 2))
    )


OPERATORS = {
    op.full_name: op.op
    for op in binary_ufuncs
    if not op.full_name.startswith("_refs") and takes_numbers(op.op)
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATORS)
def test_binary_operator(name: str) -> None:
    function = OPERATORS[name]
    compared = 0
    for dtype, number, size in itertools.product(DTYPES, NUMBERS, SIZES):
        x = torch.ones(size, dtype=dtype)
        for theirs, mine in (((x, number), (x.openreg(), number)), ((number, x), (number, x.openreg()))):
            expected, found = result(function, *theirs), result(function, *mine)
            what = f"{name} {dtype} {list(size)} and {number}"
            if isinstance(expected, torch.Tensor):
                assert isinstance(found, torch.Tensor) and found.dtype == expected.dtype, f"{what}: {found}"
                close(found, expected, what)
                compared += 1
    assert compared
