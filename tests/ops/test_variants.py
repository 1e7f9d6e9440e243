"""Compares variants of every operator with the CPU: strided and conjugated inputs, out variants, in-place variants.

`test_ops.py` compares plain calls. Here inputs have gaps between their elements, are channels last or conjugate views;
outputs match, are empty, or have other strides, another shape or a wider dtype. Uses six samples of each operator, one
seventh of them each day, or all with `make test-ops`.
"""

from collections.abc import Callable, Iterator

import pytest
import torch
from agreement import DEVICE, OPERATORS, close, is_due, map_tensors, move, move_value, over_copy, tensors
from exceptions import CRASH_THE_CPU, ELSEWHERE, OTHER_STRIDES, OTHER_VARIANTS, RANDOM
from torch.utils import _pytree as pytree

SAMPLES = 6
DTYPES = [torch.float32, torch.complex64]
NAMES = sorted(set(OPERATORS) - ELSEWHERE - set(OTHER_VARIANTS) - CRASH_THE_CPU)

Arguments = tuple[object, tuple, dict]


def copied(x: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides."""
    if x.is_conj():
        return copied(x.conj()).conj()
    if x.layout != torch.strided or x.numel() == 0:
        return x.detach().clone()
    return over_copy(x.detach(), torch.clone)


def moved(x: torch.Tensor) -> torch.Tensor:
    return move(x.conj()).conj() if x.is_conj() else move(x)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def conjugate_view(x: torch.Tensor) -> torch.Tensor:
    return x.conj_physical().conj() if x.is_complex() else x


def forms(name: str) -> Iterator[tuple[str, Arguments]]:
    operator = OPERATORS[name]
    for dtype in DTYPES:
        if dtype not in operator.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        for number, sample in zip(range(SAMPLES), operator.sample_inputs("cpu", dtype), strict=False):
            if not is_due(name, number):
                continue
            plain = map_tensors(torch.Tensor.detach, (sample.input, sample.args, sample.kwargs))
            if not tensors(plain) or any(x.layout != torch.strided for x in tensors(plain)):
                continue
            what = f"{name} {dtype} sample {number}"
            yield what, plain
            with_gaps = sample.noncontiguous()
            yield f"{what}, gaps", map_tensors(copied, (with_gaps.input, with_gaps.args, with_gaps.kwargs))
            if any(x.dim() == 4 for x in tensors(plain)):
                yield f"{what}, channels last", map_tensors(channels_last, plain)
            if dtype.is_complex:
                yield f"{what}, conjugate", map_tensors(conjugate_view, plain)


def fresh(arguments: Arguments, device: str) -> Arguments:
    """Copies the arguments to the device, with the same strides."""
    own = map_tensors(copied, arguments)
    if device == "cpu":
        return own
    return pytree.tree_map(lambda x: moved(x) if isinstance(x, torch.Tensor) else move_value(x), own)


def same(mine: object, theirs: object, what: str, values: bool = True, strides: bool = True) -> None:
    assert len(tensors(mine)) == len(tensors(theirs)), what
    for m, t in zip(tensors(mine), tensors(theirs), strict=True):
        assert m.device.type == DEVICE, what
        assert (m.shape, m.dtype) == (t.shape, t.dtype), what
        if strides and t.numel() > 1:
            assert m.stride() == t.stride(), what
        if values:
            close(m, t, what)


def result_or_error(call: Callable[[], object]) -> tuple[object, Exception | None]:
    torch.manual_seed(1)
    try:
        result = call()
        torch.openreg.synchronize()
        return result, None
    except Exception as error:
        return None, error


def call_both(
    what: str, theirs: Callable[[], object], mine: Callable[[], object]
) -> tuple[object, object] | None:
    """Returns both results, or None if both calls raise. Fails if only one raises."""
    expected, raised = result_or_error(theirs)
    found, raised_here = result_or_error(mine)
    assert (raised is None) == (raised_here is None), f"{what}\nthe CPU: {raised}\nhere: {raised_here}"
    return None if raised is not None else (found, expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_strides_of_inputs(name: str) -> None:
    operator = OPERATORS[name]
    for what, arguments in forms(name):
        theirs, mine = (fresh(arguments, device) for device in ("cpu", DEVICE))
        results = call_both(
            what,
            lambda a=theirs: operator(a[0], *a[1], **a[2]),
            lambda a=mine: operator(a[0], *a[1], **a[2]),
        )
        if results is not None:
            same(*results, what, name not in RANDOM, name not in OTHER_STRIDES)


def reversed_strides(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(x.shape[::-1], dtype=x.dtype).permute(list(range(x.dim()))[::-1])


def wider(x: torch.Tensor) -> torch.Tensor:
    dtypes = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    return torch.zeros(x.shape, dtype=dtypes.get(x.dtype, x.dtype))


OUTPUTS = {
    "matching": lambda x: torch.zeros(x.shape, dtype=x.dtype),
    "empty": lambda x: torch.empty(0, dtype=x.dtype),
    "other strides": reversed_strides,
    "another shape": lambda x: torch.zeros([size + 1 for size in x.shape], dtype=x.dtype),
    "wider dtype": wider,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in NAMES if OPERATORS[name].supports_out])
def test_outputs(name: str) -> None:
    operator = OPERATORS[name]
    for what, arguments in forms(name):
        a = fresh(arguments, "cpu")
        made, raised = result_or_error(lambda a=a: operator(a[0], *a[1], **a[2]))
        if raised is not None or any(x.layout != torch.strided for x in tensors(made)):
            continue
        for which, output in OUTPUTS.items():
            for _ in range(2):  # a cache miss, then a cache hit
                theirs, mine = (fresh(arguments, device) for device in ("cpu", DEVICE))
                into = [output(x) for x in tensors(made)]
                into_there = [moved(x) for x in into]
                pack = (lambda x: x[0]) if isinstance(made, torch.Tensor) else tuple
                results = call_both(
                    f"{what}, output: {which}",
                    lambda a=theirs, o=into, p=pack: operator(a[0], *a[1], **{**a[2], "out": p(o)}),
                    lambda a=mine, o=into_there, p=pack: operator(a[0], *a[1], **{**a[2], "out": p(o)}),
                )
                if results is None:
                    continue
                keeps_strides = which not in ("empty", "another shape")
                same(into_there, into, f"{what}, output: {which}", name not in RANDOM, keeps_strides)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in NAMES if OPERATORS[name].inplace_variant])
def test_in_place(name: str) -> None:
    operator = OPERATORS[name]
    for what, arguments in forms(name):
        theirs, mine = (fresh(arguments, device) for device in ("cpu", DEVICE))
        results = call_both(
            f"{what}, in place",
            lambda a=theirs: operator.inplace_variant(a[0], *a[1], **a[2]),
            lambda a=mine: operator.inplace_variant(a[0], *a[1], **a[2]),
        )
        if results is not None:
            assert results[0] is mine[0]
            same(mine[0], theirs[0], f"{what}, in place", name not in RANDOM)
