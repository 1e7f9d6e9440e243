"""Compares operators on the device with the CPU: forward, backward, and the devices of the results."""

import dataclasses
import os
import time
import zlib
from collections.abc import Callable

import torch
from exceptions import LAPACK, RANDOM, ROUNDED
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

ALL = os.environ.get("OPENREG_TEST_OPS") == "all"  # set by `make test-ops`
# Without ALL, one seventh of the cases runs, another one each day: seven days run all.
DAY = int(os.environ.get("OPENREG_TEST_DAY", time.time() // 86400)) % 7
DEVICE = "openreg"
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
]
# For the operators of ROUNDED. All others are bitwise equal.
TOLERANCES = {torch.float64: (1e-7, 1e-7), torch.float16: (1e-2, 1e-2), torch.bfloat16: (4e-2, 4e-2)}


def operators() -> dict[str, object]:
    """Every entry of PyTorch's OpInfo database, by a unique name."""
    named: dict[str, object] = {}
    for op in op_db:
        name = op.formatted_name
        while name in named:
            name += "_"
        named[name] = op
    return named


OPERATORS = operators()


def is_due(name: str, number: int = 0) -> bool:
    """Whether a case of an operator runs today. Cases with successive numbers are due on successive days."""
    return ALL or (zlib.crc32(name.encode()) + number) % 7 == DAY


def map_tensors(function: Callable[[torch.Tensor], object], tree: object) -> object:
    return tree_map(lambda x: function(x) if isinstance(x, torch.Tensor) else x, tree)


def tensors(tree: object) -> list[torch.Tensor]:
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def over_copy(x: torch.Tensor, copy: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A tensor with the strides and offset of ``x``, over a copy of its whole storage."""
    length = x.untyped_storage().nbytes() // x.itemsize
    return copy(x.as_strided((length,), (1,), 0)).as_strided(x.shape, x.stride(), x.storage_offset())


def move(leaf: object) -> object:
    """Moves a tensor to the device with its strides, offset and conjugate bit, over a copy of its whole storage."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    source = leaf.detach()
    if leaf.layout != torch.strided or leaf.numel() == 0 or leaf.is_neg():
        return source.to(DEVICE).requires_grad_(leaf.requires_grad)
    if leaf.is_conj():  # matrix products round differently if they conjugate
        moved = over_copy(source.conj(), lambda whole: whole.to(DEVICE)).conj()
        return moved.detach().requires_grad_(leaf.requires_grad)
    return over_copy(source, lambda whole: whole.to(DEVICE)).detach().requires_grad_(leaf.requires_grad)


def with_fixed_policy(leaf: object) -> object:
    """Of linear_cross_entropy: torch chooses how to accumulate by the type of the device. Both get the accelerator's."""
    return (
        dataclasses.replace(leaf, acc_policy="compact") if getattr(leaf, "acc_policy", "") == "auto" else leaf
    )


def move_value(value: object) -> object:
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device(DEVICE)
    return move(value)


def names_another_device(sample: object) -> bool:
    """Whether an argument is a device, or a tensor on a device, of another type: the database has such samples on
    machines with a GPU."""
    leaves = tree_leaves((sample.args, sample.kwargs))
    named = [
        x for x in leaves if isinstance(x, torch.device) or (isinstance(x, str) and x.startswith("cuda"))
    ]
    devices = [torch.device(x) for x in named] + [x.device for x in leaves if isinstance(x, torch.Tensor)]
    return any(device.type not in ("cpu", DEVICE) for device in devices)


def close(mine: torch.Tensor, theirs: torch.Tensor, what: str) -> None:
    """``what`` begins with the name of the operator."""
    name = what.split(maxsplit=1)[0].rstrip(",")
    is_rounded = name in ROUNDED or name.startswith(LAPACK)
    rtol, atol = TOLERANCES.get(theirs.dtype, (1e-4, 1e-4)) if is_rounded else (0, 0)
    torch.testing.assert_close(
        mine.detach().cpu(),
        theirs.detach(),
        rtol=rtol,
        atol=atol,
        equal_nan=True,
        msg=lambda text: f"{what}: {text}",
    )


def same(mine: object, theirs: object, what: str, values: bool) -> int:
    """Returns the number of compared tensors."""
    mine, theirs = tree_leaves(mine), tree_leaves(theirs)
    assert len(mine) == len(theirs), f"{what}: {len(mine)} results, the CPU returns {len(theirs)}"
    for m, t in zip(mine, theirs, strict=True):
        if not isinstance(t, torch.Tensor):
            assert type(m) is type(t), f"{what}: {m!r}, the CPU returns {t!r}"
            continue
        assert m.device.type == DEVICE, f"{what}: the result is on {m.device}"
        assert m.shape == t.shape, f"{what}: {tuple(m.shape)}, the CPU returns {tuple(t.shape)}"
        assert m.dtype == t.dtype, f"{what}: {m.dtype}, the CPU returns {t.dtype}"
        if values:
            close(m, t, what)
    return sum(isinstance(t, torch.Tensor) for t in theirs)


def gradients(output: object, inputs: object) -> tuple[torch.Tensor | None, ...] | None:
    outputs = [o for o in tensors(output) if o.requires_grad]
    inputs = [i for i in tensors(inputs) if i.requires_grad]
    if not outputs or not inputs:
        return None
    total = sum((o.abs() if o.is_complex() else o).float().sum() for o in outputs)
    return torch.autograd.grad(total, inputs, allow_unused=True)


def check_sample(op: object, sample: object, what: str, backward: bool, values: bool) -> int:
    """Returns the number of compared results and gradients; 0 if the CPU rejects the sample."""
    cpu = tree_map(with_fixed_policy, (sample.input, sample.args, sample.kwargs))
    there = tree_map(move_value, cpu)
    if op.name == "tensor_split":  # its indices stay on the host, as on CUDA
        there = (there[0], cpu[1], cpu[2])
    if op.is_factory_function:
        there[2]["device"] = DEVICE
    torch.manual_seed(1)
    try:
        expected = op(cpu[0], *cpu[1], **cpu[2])
        theirs = gradients(expected, cpu) if backward else None
    except Exception:  # raised by the CPU
        return 0
    torch.manual_seed(1)
    result = op(there[0], *there[1], **there[2])
    compared = max(1, same(result, expected, what, values))  # some operators return numbers
    if theirs is not None:
        mine = gradients(result, there)
        # The device may have a gradient where the CPU has none: its decomposition differs.
        pairs = [(m, t) for m, t in zip(mine, theirs, strict=True) if t is not None]
        assert all(m is not None for m, _ in pairs), f"{what}: a gradient is missing"
        compared += same([m for m, _ in pairs], [t for _, t in pairs], f"{what}, backward", values)
    return compared


def check(name: str, dtype: torch.dtype) -> tuple[int, int]:
    """Compares all samples, if the dtype is due. Returns the number of samples, and of compared tensors."""
    op = OPERATORS[name]
    if dtype not in op.supported_dtypes("cpu") or not is_due(name, DTYPES.index(dtype)):
        return 0, 0
    backward = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    tried = compared = 0
    torch.manual_seed(0)
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=backward)):
        if names_another_device(sample):
            continue
        tried += 1
        compared += check_sample(op, sample, f"{name} {dtype} sample {number}", backward, name not in RANDOM)
    torch.openreg.synchronize()
    return tried, compared
