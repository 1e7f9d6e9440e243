"""Writes docs/autocast.md: the result dtype of each operator of CUDA's autocast lists on the device.

The lists are read from the header of the installed torch. Each operator is called under autocast to float16 and
to bfloat16, with float32, low-precision and mixed arguments. No row is written by hand.

    python tools/autocast.py            writes the page
    python tools/autocast.py --check    checks that it is up to date
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from page import TORCH, Page

HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
DEVICE = torch.accelerator.current_accelerator()

# The macros of the header that CUDA registers, and the policy of each.
LISTS = {
    "AT_FORALL_LOWER_PRECISION_FP": "low precision",
    "AT_FORALL_FP32": "float32",
    "AT_FORALL_FP32_SET_OPT_DTYPE": "float32 unless dtype is given",
    "AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE": "float32 unless dtype is given",
    "AT_FORALL_PROMOTE": "widest dtype",
}

HEAD = """\
# Autocast, operator by operator

Made by `tools/autocast.py` with torch {version}; a test checks that it is up to date. Do not edit.

`torch.autocast("{device}")` registers the same lists as CUDA (`ATen/autocast_mode.h`), {count} operators. Each operator was
called under autocast to float16 and to bfloat16: with float32 arguments, with arguments of the autocast dtype (*low*), and
with the first argument of the autocast dtype and the others float32 (*mixed*). The table shows the dtype of the result.
Operators in no list run in the dtype of their arguments. `binary_cross_entropy` is an error, as on CUDA.
`_scaled_dot_product_flash_attention` has no kernel on this device; programs call `scaled_dot_product_attention`.

| operator | list | float32 | low | mixed |
| --- | --- | --- | --- | --- |
"""

Make = Callable[..., torch.Tensor]
Arguments = Callable[[Make], tuple]


def listed() -> Iterator[tuple[str, str]]:
    """The operators of CUDA's lists, as ``name.overload``, and the list of each."""
    text = HEADER.read_text().replace("\\\n", "\n")
    for macro, policy in LISTS.items():
        body = re.search(rf"#define {macro}\(_\)(.*?)(?=#define|#else)", text, re.DOTALL).group(1)
        if macro == "AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE":
            names = re.findall(r'"([\w.]+)"', body)
        else:
            found = re.findall(r"_\((\w+)(?:,\s*(\w+))?\)", body)
            names = [f"{name}.{overload}" if overload else name for name, overload in found]
        yield from ((name, policy) for name in names)


def with_targets(make: Make) -> tuple:
    return make(4, 4), torch.arange(4, device=DEVICE)


def image(*sizes: int) -> Arguments:
    """Arguments of operators that resize images."""
    return lambda make: (make(1, 2, *sizes), [2 * size for size in sizes])


def convolution(dims: int) -> Arguments:
    return lambda make: (make(1, 2, *[5] * dims), make(2, 2, *[3] * dims))


def general_convolution(*more: bool) -> Arguments:
    return lambda make: (
        *(make(1, 2, 5, 5), make(2, 2, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
        *more,
    )


def cell(gates: int) -> Arguments:
    return lambda make: (
        *(make(3, 4), make(3, 5), make(gates * 5, 4), make(gates * 5, 5)),
        *(make(gates * 5), make(gates * 5)),
    )


def pair(make: Make) -> tuple:
    return make(4, 4), make(4, 4)


def vectors(make: Make) -> tuple:
    return make(4), make(4)


# Arguments of the operators that do not only take square matrices.
ARGUMENTS: dict[str, Arguments] = {
    "_convolution.deprecated": general_convolution(False, False, True),
    "_convolution": general_convolution(False, False, True, True),
    "convolution": general_convolution(),
    "conv1d": convolution(1),
    "conv2d": convolution(2),
    "conv3d": convolution(3),
    "conv_tbc": lambda make: (make(5, 2, 3), make(2, 3, 4), make(4)),
    "conv_transpose1d": convolution(1),
    "conv_transpose2d.input": convolution(2),
    "conv_transpose3d.input": convolution(3),
    "prelu": lambda make: (make(4, 4), make(1)),
    "addmm": lambda make: (make(4, 4), make(4, 4), make(4, 4)),
    "addmv": lambda make: (make(4), make(4, 4), make(4)),
    "addr": lambda make: (make(4, 4), make(4), make(4)),
    "einsum": lambda make: ("ij,jk->ik", [make(4, 4), make(4, 4)]),
    "mv": lambda make: (make(4, 4), make(4)),
    "addbmm": lambda make: (make(4, 4), make(2, 4, 4), make(2, 4, 4)),
    "baddbmm": lambda make: (make(2, 4, 4), make(2, 4, 4), make(2, 4, 4)),
    "bmm": lambda make: (make(2, 4, 4), make(2, 4, 4)),
    "chain_matmul": lambda make: ([make(4, 4), make(4, 4)],),
    "linalg_multi_dot": lambda make: ([make(4, 4), make(4, 4)],),
    "_thnn_fused_lstm_cell": lambda make: (make(3, 20), make(3, 20), make(3, 5), make(20), make(20)),
    "_thnn_fused_gru_cell": lambda make: (make(3, 15), make(3, 15), make(3, 5), make(15), make(15)),
    "lstm_cell": lambda make: (
        *(make(3, 4), [make(3, 5), make(3, 5)], make(20, 4), make(20, 5)),
        *(make(20), make(20)),
    ),
    "gru_cell": cell(3),
    "rnn_tanh_cell": cell(1),
    "rnn_relu_cell": cell(1),
    "_scaled_dot_product_flash_attention": lambda make: (
        make(1, 2, 4, 8),
        make(1, 2, 4, 8),
        make(1, 2, 4, 8),
    ),
    "scaled_dot_product_attention": lambda make: (make(1, 2, 4, 8), make(1, 2, 4, 8), make(1, 2, 4, 8)),
    "pow.Tensor_Scalar": lambda make: (make(4, 4), 2.5),
    "pow.Scalar": lambda make: (2.5, make(4, 4)),
    "layer_norm": lambda make: (make(4, 4), [4]),
    "native_layer_norm": lambda make: (make(4, 4), [4], make(4), make(4), 1e-5),
    "rms_norm": lambda make: (make(4, 4), [4]),
    "group_norm": lambda make: (make(4, 4), 2),
    "frobenius_norm.dim": lambda make: (make(4, 4), [0]),
    "nuclear_norm.dim": lambda make: (make(4, 4), [0, 1]),
    "poisson_nll_loss": lambda make: (make(4, 4), make(4, 4), True, False, 1e-8, 1),
    "cosine_embedding_loss": lambda make: (make(4, 4), make(4, 4), make(4)),
    "nll_loss": with_targets,
    "nll_loss2d": lambda make: (
        make(1, 4, 2, 2),
        torch.zeros(1, 2, 2, dtype=torch.int64, device=DEVICE),
    ),
    "margin_ranking_loss": lambda make: (make(4), make(4), make(4)),
    "multilabel_margin_loss": lambda make: (
        make(4, 4),
        torch.zeros(4, 4, dtype=torch.int64, device=DEVICE),
    ),
    "triplet_margin_loss": lambda make: (make(4, 4), make(4, 4), make(4, 4)),
    "multi_margin_loss": with_targets,
    "renorm": lambda make: (make(4, 4), 2, 0, 1.0),
    "logsumexp": lambda make: (make(4, 4), [0]),
    "upsample_nearest1d": image(3),
    "_upsample_nearest_exact1d": image(3),
    "upsample_nearest2d": image(3, 3),
    "_upsample_nearest_exact2d": image(3, 3),
    "upsample_nearest3d": image(3, 3, 3),
    "_upsample_nearest_exact3d": image(3, 3, 3),
    "upsample_linear1d": lambda make: (*image(3)(make), False),
    "upsample_bilinear2d": lambda make: (*image(3, 3)(make), False),
    "_upsample_bilinear2d_aa": lambda make: (*image(3, 3)(make), False),
    "upsample_trilinear3d": lambda make: (*image(3, 3, 3)(make), False),
    "upsample_bicubic2d": lambda make: (*image(3, 3)(make), False),
    "_upsample_bicubic2d_aa": lambda make: (*image(3, 3)(make), False),
    "prod.dim_int": lambda make: (make(4, 4), 0),
    "softmax.int": lambda make: (make(4, 4), 0),
    "log_softmax.int": lambda make: (make(4, 4), 0),
    "cumprod": lambda make: (make(4, 4), 0),
    "cumsum": lambda make: (make(4, 4), 0),
    "linalg_matrix_norm": lambda make: (make(4, 4), 1),
    "sum.dim_IntList": lambda make: (make(4, 4), [0]),
    "norm.Scalar": lambda make: (make(4, 4), 2),
    "norm.ScalarOpt_dim": lambda make: (make(4, 4), 2, [0]),
    "addcdiv": lambda make: (make(4, 4), make(4, 4), make(4, 4)),
    "addcmul": lambda make: (make(4, 4), make(4, 4), make(4, 4)),
    "bilinear": lambda make: (make(3, 4), make(3, 5), make(2, 4, 5)),
    "cross": lambda make: (make(4, 3), make(4, 3)),
    "dot": vectors,
    "vdot": vectors,
    "grid_sampler": lambda make: (make(1, 2, 4, 4), make(1, 3, 3, 2), 0, 0, False),
    "index_put": lambda make: (make(4), [torch.tensor([1], device=DEVICE)], make(1)),
    "tensordot": lambda make: (make(4, 4), make(4, 4), [1], [0]),
    "scatter_add": lambda make: (
        make(4, 4),
        0,
        torch.zeros(4, 4, dtype=torch.int64, device=DEVICE),
        make(4, 4),
    ),
}


def arguments_of(name: str, operator: torch._ops.OpOverload) -> Arguments:
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    tensors = [a for a in operator._schema.arguments if str(a.type) == "Tensor" and not a.has_default_value()]
    return lambda make: tuple(make(4, 4) for _ in tensors)


def result_dtype(operator: torch._ops.OpOverload, arguments: Arguments, low: torch.dtype, given: str) -> str:
    """The dtype of the first result: "low", the name of a dtype, or empty if the case does not apply."""
    made: list[torch.Tensor] = []

    def make(*sizes: int) -> torch.Tensor:
        dtype = low if given == "low" or (given == "mixed" and not made) else torch.float32
        made.append(torch.rand(*sizes, device=DEVICE, dtype=dtype) * 0.5 + 0.25)
        return made[-1]

    call = arguments(make)
    if given == "mixed" and len(made) < 2:
        return ""
    try:
        with torch.autocast(DEVICE.type, dtype=low):
            result = operator(*call)
        torch.accelerator.synchronize()
    except NotImplementedError:
        return "not on this device"
    result = result[0] if isinstance(result, (tuple, list)) else result
    return "low" if result.dtype == low else str(result.dtype).removeprefix("torch.")


def row(name: str, policy: str) -> str:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    arguments = arguments_of(name, operator)
    cells = []
    for given in ("float32", "low", "mixed"):
        both = {result_dtype(operator, arguments, low, given) for low in (torch.float16, torch.bfloat16)}
        cells.append(" or ".join(sorted(both)))
    return f"| `{name}` | {policy} | {' | '.join(cells)} |\n"


def page() -> str:
    torch.manual_seed(0)
    operators = list(listed())
    head = HEAD.format(version=TORCH, device=DEVICE.type, count=len(operators))
    return head + "".join(row(name, policy) for name, policy in operators)


PAGE = Page("autocast", page)

if __name__ == "__main__":
    sys.exit(PAGE.main(__doc__))
