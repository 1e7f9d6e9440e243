"""Dtypes that only CUDA supports work on the device; dtypes that neither CUDA nor the CPU supports are rejected at the call."""

import itertools

import pytest
import torch
from agreement import DTYPES, OPERATORS, is_due, move_value
from exceptions import ELSEWHERE, ONLY_ON_CUDA, REFUSED_LATE
from torch.utils._pytree import tree_leaves, tree_map

WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}

# Random results, and operators that the CPU supports for no complex dtype; tests/test_operators.py tests their values.
NO_REFERENCE = {"nn_functional_rrelu", "nansum", "nanmean"}


def samples(name: str, dtype: torch.dtype, most: int) -> list[object]:
    torch.manual_seed(0)
    try:
        return list(itertools.islice(OPERATORS[name].sample_inputs("cpu", dtype), most))
    except (RuntimeError, TypeError, ValueError):  # no samples in this dtype
        return []


def call(name: str, sample: object, change) -> object:
    arguments = tree_map(change, (sample.input, sample.args, dict(sample.kwargs)))
    if OPERATORS[name].is_factory_function:
        arguments[2]["device"] = "openreg"
    return OPERATORS[name](arguments[0], *arguments[1], **arguments[2])


BEYOND = [
    pytest.param(name, dtype, id=f"{name}-{dtype}")
    for name, op in OPERATORS.items()
    for dtype in (*DTYPES, torch.complex32)
    if name not in ELSEWHERE and dtype in op.supported_dtypes("cuda") - op.supported_dtypes("cpu")
    if not any(name.startswith(prefix) and str(dtype) in dtypes for prefix, dtypes in ONLY_ON_CUDA.items())
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dtype"), BEYOND)
def test_dtypes_that_only_cuda_supports(name, dtype):
    """The results equal the CPU's in a wider dtype."""
    wide = WIDER.get(dtype, torch.float64 if dtype != torch.bool else torch.int64)

    def upcast(value: object) -> object:
        is_narrow = isinstance(value, torch.Tensor) and value.dtype == dtype
        return value.to(wide) if is_narrow else wide if value == dtype else value

    for sample in samples(name, dtype, 3):
        mine = tree_leaves(call(name, sample, move_value))
        assert all(tensor.is_openreg for tensor in mine)
        if name in NO_REFERENCE:
            continue
        theirs = tree_leaves(call(name, sample, upcast))
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a.cpu(), b.to(a.dtype), rtol=4e-2, atol=5e-2, equal_nan=True)


WITH_COMPLEX_NUMBERS = {
    "pow.Scalar": lambda x: torch.pow(1 + 1j, x),
    "pow.Tensor_Scalar": lambda x: torch.pow(x, 1 + 1j),
    "pow.Tensor_Tensor": lambda x: torch.pow(x, torch.tensor(1 + 1j, device=x.device)),
    "pow.Scalar_out": lambda x: torch.pow(1 + 1j, x, out=x.new_empty(3, dtype=torch.complex32)),
    "div.Tensor": lambda x: x / (1 + 1j),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WITH_COMPLEX_NUMBERS)
def test_a_complex_number_and_a_half_tensor_give_complex32(name):
    function = WITH_COMPLEX_NUMBERS[name]
    x = torch.tensor([1.0, 1.5, 3.0])
    result = function(x.half().to("openreg"))
    assert result.dtype == torch.complex32
    torch.testing.assert_close(
        result.cpu().to(torch.complex64), function(x).to(torch.complex64), rtol=1e-2, atol=1e-2
    )


def test_a_half_tensor_cannot_hold_complex_results():
    x = torch.ones(3, dtype=torch.float16, device="openreg")
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.pow_(1j)
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.div_(1j)
    assert x.tolist() == [1, 1, 1]


CHECKED = [
    pytest.param(name, id=name)
    for name, op in OPERATORS.items()
    if name not in REFUSED_LATE and is_due(name) and not op.is_factory_function
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKED)
def test_unsupported_dtypes_are_rejected_at_the_call(name):
    op = OPERATORS[name]
    for dtype in set(DTYPES) - op.supported_dtypes("cpu") - op.supported_dtypes("cuda"):
        for sample in samples(name, dtype, 1):
            try:
                call(name, sample, lambda value: value)
            except Exception:
                pass
            else:
                continue  # the CPU supports it, contrary to the database
            with pytest.raises(Exception) as raised:
                call(name, sample, move_value)
            assert not isinstance(raised.value, torch.AcceleratorError), (
                "the error came from a launched kernel"
            )
            torch.openreg.synchronize()
