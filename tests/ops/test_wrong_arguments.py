"""Wrong arguments for every operator: arguments that the CPU rejects raise the CPU's error at the call.

The arguments are the error inputs of PyTorch's OpInfo database, and its samples with one argument changed: another
size, dtype, number of dimensions, or number. Only data-dependent errors are raised later, by the kernel.
"""

import random
import re
from collections.abc import Callable, Iterator

import pytest
import torch
from agreement import OPERATORS, is_due, map_tensors
from exceptions import CRASH_THE_CPU, OTHERWISE_REFUSED
from torch.utils import _pytree as pytree

CHANGES = 40  # one seventh of them each day
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.bool, torch.complex64]
NAMES = [name for name in OPERATORS if name not in CRASH_THE_CPU | set(OTHERWISE_REFUSED)]

DATA_DEPENDENT = re.compile(
    r"out of (DATA )?bounds|out of range|in the valid range|setStorage|"  # indices
    r"cannot be broadcast to indexing result|INTERNAL ASSERT.*IndexKernel|"  # masks
    r"Number of elements of source < number of ones in mask|"
    r"probability tensor contains|invalid multinomial distribution|std >= 0|p_in >= 0|"
    r"singular|not positive-definite|converge|pivots passed|"
    r"Found an invalid max index|lengths|target_lengths|"
    r"ZeroDivisionError|Integers to negative integer powers"
)

Arguments = tuple[object, tuple, dict]


def outcome(call: Callable[[], object]) -> tuple[str, str]:
    """Type and first line of the exception, without the names of devices, types and kernels."""
    try:
        call()
    except Exception as error:
        message = (str(error).splitlines() or [""])[0]
        message = re.sub(r"torch\.(\w+)Tensor|(?:CPU|openreg)(\w+)Type", lambda m: m[1] or m[2], message)
        message = re.sub(r"\bopenreg(?::0)?\b|\bcpu\b|\bmeta\b", "device", message)
        return type(error).__name__, re.sub(r'"\w+" (not implemented for)', r"\1", message)
    return "nothing", ""


def late_error() -> str:
    kind, message = outcome(torch.openreg.synchronize)
    return "" if kind == "nothing" else message


def resized(x: torch.Tensor, rng: random.Random) -> torch.Tensor | None:
    if x.dim() == 0 or x.numel() == 0:
        return None
    dim = rng.randrange(x.dim())
    return (
        torch.cat([x, x.narrow(dim, 0, 1)], dim) if rng.random() < 0.6 else x.narrow(dim, 0, x.shape[dim] - 1)
    )


def emptied(x: torch.Tensor, rng: random.Random) -> torch.Tensor | None:
    return x.narrow(rng.randrange(x.dim()), 0, 0) if x.dim() > 0 else None


def with_other_rank(x: torch.Tensor, rng: random.Random) -> torch.Tensor | None:
    if x.dim() == 0 or x.numel() == 0 or rng.random() < 0.5:
        return x.unsqueeze(rng.randrange(x.dim() + 1))
    return x.select(rng.randrange(x.dim()), 0)


def with_other_dtype(x: torch.Tensor, rng: random.Random) -> torch.Tensor | None:
    return x.to(rng.choice(DTYPES))


def changed(leaves: list, rng: random.Random) -> list | None:
    """The leaves with one of them changed, or None if that is not possible."""
    numbers = [i for i, x in enumerate(leaves) if type(x) in (int, float)]
    tensors = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    if numbers and (not tensors or rng.random() < 0.15):
        i = rng.choice(numbers)
        choices = (
            [-1, 0, 7, -7, 100, 2.5] if type(leaves[i]) is int else [-1.0, 0.0, 2.0, 1e300, 1j, float("nan")]
        )
        return [*leaves[:i], rng.choice(choices), *leaves[i + 1 :]]
    if not tensors:
        return None
    i = rng.choice(tensors)
    change = rng.choice([resized, resized, resized, emptied, with_other_rank, with_other_dtype])
    with_change = change(leaves[i], rng)
    return None if with_change is None else [*leaves[:i], with_change.clone(), *leaves[i + 1 :]]


def changed_samples(name: str) -> Iterator[tuple[str, Arguments]]:
    operator = OPERATORS[name]
    supported = operator.supported_dtypes("cpu")
    if not supported:
        return
    dtype = torch.float32 if torch.float32 in supported else min(supported, key=str)
    torch.manual_seed(0)
    samples = list(operator.sample_inputs("cpu", dtype))
    rng = random.Random(name)
    for number in range(CHANGES if samples else 0):
        sample = rng.choice(samples)
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        if any(isinstance(x, torch.Tensor) and x.layout != torch.strided for x in leaves):
            continue
        leaves = changed([x.detach().clone() if isinstance(x, torch.Tensor) else x for x in leaves], rng)
        if leaves is not None and is_due(name, number):
            what = [f"{x.dtype}{list(x.shape)}" if isinstance(x, torch.Tensor) else repr(x) for x in leaves]
            yield " ".join(what), pytree.tree_unflatten(leaves, spec)


def check(what: str, theirs: Callable[[], object], mine: Callable[[], object]) -> None:
    expected = outcome(theirs)
    torch.openreg.synchronize()
    found = outcome(mine)
    late = late_error()
    if late:
        assert DATA_DEPENDENT.search(late), f"{what}\nthe CPU: {expected}\nraised late: {late}"
    elif DATA_DEPENDENT.search(expected[1]):
        assert found[0] in (expected[0], "AcceleratorError"), f"{what}\nthe CPU: {expected}\nhere: {found}"
    elif (
        found[0] != "nothing" or "not implemented for" not in expected[1]
    ):  # CUDA supports dtypes that the CPU does not
        assert found == expected, what


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_modified_samples(name: str) -> None:
    operator = OPERATORS[name]
    for what, theirs in changed_samples(name):
        mine = map_tensors(lambda t: t.to("openreg"), theirs)
        check(
            f"{name} {what}",
            lambda a=theirs: operator(a[0], *a[1], **a[2]),
            lambda a=mine: operator(a[0], *a[1], **a[2]),
        )


def calls(name: str, device: str) -> list[Callable[[], object]]:
    torch.manual_seed(0)
    samples = [error.sample_input for error in OPERATORS[name].error_inputs(device)]
    return [lambda s=s: OPERATORS[name](s.input, *s.args, **s.kwargs) for s in samples]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in NAMES if OPERATORS[name].error_inputs_func])
def test_error_inputs(name: str) -> None:
    theirs, mine = calls(name, "cpu"), calls(name, "openreg")
    if len(theirs) == len(mine):
        for i, pair in enumerate(zip(theirs, mine, strict=True)):
            check(f"{name}, number {i}", *pair)
        return
    for i, call in enumerate(mine):  # some are for accelerators only, such as tensors on two devices
        kind, _ = outcome(call)
        late = late_error()
        assert kind != "nothing" or DATA_DEPENDENT.search(late), f"{name}, number {i}: {late or 'no error'}"


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.lerp(x, x, 1j),
        lambda x: torch.addcmul(x, x, x, value=1e300),
        lambda x: torch._foreach_lerp([x], [x], 1j),
        lambda x: torch._foreach_addcmul_([x], [x], [x], [1j]),
        lambda x: x.index_fill_(0, torch.tensor([1], device=x.device), 1j),
        lambda x: torch.linalg.lu_factor(x, pivot=False),
        lambda x: torch.baddbmm(x, x[None], x[None].bool()),
    ],
    ids=["lerp", "addcmul", "foreach_lerp", "foreach_addcmul", "index_fill", "lu_factor", "baddbmm"],
)
def test_large_arguments(call: Callable[[torch.Tensor], object]) -> None:
    """A number beyond the dtype, or a wrong dtype. The tensors are larger than those of a dry run."""
    check("", lambda: call(torch.ones(20, 20)), lambda: call(torch.ones(20, 20, device="openreg")))
