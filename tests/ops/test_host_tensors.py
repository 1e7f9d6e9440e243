"""A host tensor among the arguments counts with the value that it has at the call.

The program may change it while the work is still pending. So every operator of PyTorch's database is called with numbers
on the host in the place of its tensors, one after the other, wherever it takes them; behind a blocked stream; the host
tensors are overwritten before the stream goes on; and the result is that of the CPU. The ordinary tests do this for the
first samples of some operators; with ``OPENREG_TEST_OPS=all``, for all samples and dtypes of all.
"""

import zlib
from collections.abc import Callable, Iterator

import pytest
import torch
from agreement import ALL, DEVICE, DTYPES, OPERATORS, close, map_tensors, move, tensors
from blocked_stream import held
from exceptions import RANDOM

MOST_SAMPLES = None if ALL else 5
MOST_CHECKS = None if ALL else 4

# Their CPU kernels read beyond the end of a weight that is too short.
UNCHECKED = {"native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"}
NAMES = [name for name in OPERATORS if name not in RANDOM | UNCHECKED]


def places(arguments: object) -> list[set[int]]:
    """Which of the tensors, counted through all arguments and lists, can be numbers: one, or all but the first."""
    usable = [
        k
        for k, tensor in enumerate(tensors(arguments))
        if tensor.layout == torch.strided and not tensor.is_quantized and tensor.numel() > 0
    ]
    return [set(usable) - {0}, *({k} for k in usable)]


def with_numbers(arguments: object, place: set[int]) -> object:
    """The arguments with those tensors, and all that are numbers already, marked as numbers of the host."""
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
    """Copies, where ``to`` puts what is not on the host; and those that are."""
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
    """False if this cannot be called so, or if the call waits for the device."""
    try:
        expected = call(function, copies(arguments, torch.Tensor.clone)[0])
        call(function, copies(arguments, move)[0])  # its shapes are known from here on
        there, _ = copies(arguments, move)
        before = torch.openreg.operator_totals().waits
        call(function, there)
        waits = torch.openreg.operator_totals().waits - before
        torch.openreg.synchronize()
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
@pytest.mark.parametrize(
    "name", [n for n in NAMES if ALL or "index" in n or "foreach" in n or zlib.crc32(n.encode()) % 4 == 0]
)
def test_host_tensors_count_with_their_value_at_the_call(name: str) -> None:
    checked = sum(check(name, dtype) for dtype in (DTYPES if ALL else [torch.float32]))
    if checked == 0:
        pytest.skip("takes no number of the host, or waits")
