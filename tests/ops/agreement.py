"""Does an operator do on the device what it does on the CPU? Forward, backward, results where they belong."""

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

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
OPERATORS = {
    op.formatted_name + (f"@{i}" if any(o.formatted_name == op.formatted_name for o in op_db[:i]) else ""): op
    for i, op in enumerate(op_db)
}


def to_device(value):
    """Moves tensors, keeps strides, sharing of leaves and requires_grad."""

    def move(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        moved = leaf.detach().to(DEVICE)
        if leaf.layout == torch.strided and moved.stride() != leaf.stride():
            moved = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=DEVICE).copy_(
                leaf.detach()
            )
        return moved.requires_grad_(leaf.requires_grad)

    return tree_map(move, value)


def same(mine, theirs, what: str) -> None:
    mine, theirs = tree_leaves(mine), tree_leaves(theirs)
    assert len(mine) == len(theirs), f"{what}: {len(mine)} results, the CPU has {len(theirs)}"
    for m, t in zip(mine, theirs, strict=True):
        if isinstance(t, torch.Tensor):
            assert m.device.type == DEVICE, f"{what}: the result is on {m.device}"
            assert m.shape == t.shape and m.dtype == t.dtype, (
                f"{what}: {m.shape} {m.dtype}, not {t.shape} {t.dtype}"
            )
            torch.testing.assert_close(
                m.cpu(),
                t.detach() if t.requires_grad else t,
                equal_nan=True,
                rtol=1e-4 if t.dtype != torch.float64 else 1e-7,
                atol=1e-4,
                msg=lambda text: f"{what}: {text}",
            )
        elif isinstance(t, float):
            assert m == t or abs(m - t) <= 1e-4 * abs(t) or m != m, f"{what}: {m}, not {t}"
        else:
            assert type(m) is type(t), f"{what}: {m}, not {t}"


def gradients(output, inputs):
    outputs = [o for o in tree_leaves(output) if isinstance(o, torch.Tensor) and o.requires_grad]
    inputs = [i for i in tree_leaves(inputs) if isinstance(i, torch.Tensor) and i.requires_grad]
    if not outputs or not inputs:
        return None
    total = sum((o.abs() if o.is_complex() else o).float().sum() for o in outputs)
    return torch.autograd.grad(total, inputs, allow_unused=True)


def check(name: str, dtype: torch.dtype, samples: int | None = None) -> int:
    """Compares all samples, or the first few; returns how many there were."""
    op = OPERATORS[name]
    if dtype not in op.supported_dtypes("cpu"):
        return 0
    backward = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    count = 0
    torch.manual_seed(0)
    for sample in op.sample_inputs("cpu", dtype, requires_grad=backward):
        if samples is not None and count >= samples:
            break
        cpu = (sample.input, sample.args, sample.kwargs)
        there = to_device(cpu)
        there = (
            there[0],
            there[1],
            {
                k: torch.device(DEVICE)
                if isinstance(v, torch.device) or (k == "device" and v == "cpu")
                else v
                for k, v in there[2].items()
            },
        )
        torch.manual_seed(1)
        try:
            expected = op(cpu[0], *cpu[1], **cpu[2])
        except Exception:
            continue
        torch.manual_seed(1)
        result = op(there[0], *there[1], **there[2])
        what = f"{name} {dtype} sample {count}"
        same(result, expected, what)
        if backward:
            theirs = gradients(expected, cpu)
            if theirs is not None:
                mine = gradients(result, there)
                for m, t in zip(mine, theirs, strict=True):
                    assert (m is None) == (t is None), f"{what}: gradient missing"
                    if t is not None:
                        same(m, t, f"{what}, backward")
        count += 1
    torch.openreg.synchronize()
    return count
