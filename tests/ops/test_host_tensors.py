"""Operators use the value that a host tensor argument has at the call.

The program may modify the tensor while the work is pending. Every operator of PyTorch's OpInfo database is called on a
blocked stream, with 0-dim host tensors in place of its tensors where it accepts them. The host tensors are overwritten
before the stream is unblocked; the results must equal the CPU's. By default this uses the first samples of one seventh
of the operators, and of all that index; with ``OPENREG_TEST_OPS=all``, all samples and dtypes of all operators.
"""

import contextlib
from collections.abc import Callable, Iterator

import pytest
import torch
from agreement import ALL, DEVICE, DTYPES, OPERATORS, close, is_due, map_tensors, move, tensors
from blocked_stream import held
from exceptions import RANDOM

MOST_SAMPLES = None if ALL else 5
MOST_CHECKS = None if ALL else 4

# CPU kernels that read beyond the end of a weight that is too short; a view of a storage that is not copied here.
UNCHECKED = {
    *("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"),
    "as_strided_partial_views",
}
NAMES = [name for name in OPERATORS if name not in RANDOM | UNCHECKED]


@pytest.fixture(autouse=True)
def pending_work() -> Iterator[None]:
    """The blocking schedule has no pending work, so these tests run in the async schedule instead."""
    is_blocking = torch.openreg.get_schedule().name == "blocking"
    with torch.openreg.schedule("async") if is_blocking else contextlib.nullcontext():
        yield


def places(arguments: object) -> list[set[int]]:
    """Sets of tensors to replace by 0-dim host tensors, as positions in all arguments: all but the first, or one."""
    usable = [
        k
        for k, tensor in enumerate(tensors(arguments))
        if tensor.layout == torch.strided and not tensor.is_quantized and tensor.numel() > 0
    ]
    return [set(usable) - {0}, *({k} for k in usable)]


def with_numbers(arguments: object, place: set[int]) -> object:
    """Replaces those tensors by 0-dim tensors. Marks these, and tensors that were 0-dim already, ``on_host``."""
    count = iter(range(len(tensors(arguments))))

    def replace(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach()
        number = next(count) in place or (tensor.dim() == 0 and tensor.layout == torch.strided)
        result = tensor.flatten()[0].clone() if number else tensor
        result.on_host = number
        return result

    return map_tensors(replace, arguments)


def on_host(tensor: torch.Tensor) -> bool:
    return getattr(tensor, "on_host", False)


def copies(
    arguments: object, to: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[object, list[torch.Tensor]]:
    """Copies of the arguments, with ``to`` applied to device tensors; and the list of the host tensors."""
    numbers: list[torch.Tensor] = []

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        if not on_host(tensor):
            return to(tensor)
        numbers.append(tensor.clone())
        return numbers[-1]

    return map_tensors(copy, arguments), numbers


def overwrite(number: torch.Tensor) -> None:
    number.copy_(~number if number.dtype == torch.bool else number + 1)


def call(function: Callable, arguments: tuple) -> list[torch.Tensor]:
    first, rest, named = arguments
    return tensors(function(first, *rest, **named))


def forms(op: object) -> Iterator[Callable]:
    yield op.op
    if op.inplace_variant is not None:
        yield op.inplace_variant


def check_form(function: Callable, arguments: tuple, what: str) -> bool:
    """Returns False if the call is rejected or synchronizes."""
    try:
        expected = call(function, copies(arguments, torch.Tensor.clone)[0])
        call(function, copies(arguments, move)[0])  # later calls hit the launch cache
        there, _ = copies(arguments, move)
        before = torch.openreg.operator_totals().waits
        call(function, there)
        waits = torch.openreg.operator_totals().waits - before
        torch.openreg.synchronize()
    except torch.AcceleratorError:  # a launched kernel failed
        raise
    except Exception:
        return False
    if waits:
        return False
    there, numbers = copies(arguments, move)
    with held(torch.openreg.current_stream()):
        mine = call(function, there)
        for number in numbers:
            overwrite(number)
    assert len(mine) == len(expected), what
    for m, e in zip(mine, expected, strict=True):
        if m.device.type == DEVICE:
            close(m, e, what)
    return True


def check(name: str, dtype: torch.dtype) -> int:
    op = OPERATORS[name]
    if dtype not in op.supported_dtypes("cpu"):
        return 0
    checked = 0
    torch.manual_seed(0)
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
        if number == MOST_SAMPLES:
            break
        arguments = (sample.input, sample.args, sample.kwargs)
        for place in places(arguments):
            changed = with_numbers(arguments, place)
            if all(on_host(tensor) for tensor in tensors(changed)):
                continue
            for function in forms(op):
                if checked == MOST_CHECKS:
                    return checked
                checked += check_form(function, changed, f"{name} {dtype} sample {number}, tensors {place}")
    return checked


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in NAMES if "index" in n or "foreach" in n or is_due(n)])
def test_host_tensors_are_read_at_the_call(name: str) -> None:
    checked = sum(check(name, dtype) for dtype in (DTYPES if ALL else [torch.float32]))
    if checked == 0:
        pytest.skip("takes no 0-dim host tensor, or synchronizes")
