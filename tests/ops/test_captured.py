"""Captures every operator of PyTorch's OpInfo database: a replay is bitwise equal to a launch, or the capture fails
with the expected reason.

Uses the first sample in float32 of half of the operators, the other half on the next day, or of all operators with
`make test-ops`. Random operators
are excluded: their functions in the database set generators' states, which is not permitted during capture;
tests/test_graph.py tests them.
"""

import re

import pytest
import torch
from agreement import ALL, DAY, OPERATORS, map_tensors
from exceptions import ELSEWHERE, NOT_CAPTURED, RANDOM
from torch.utils import _pytree as pytree

openreg = torch.openreg
NAMES = sorted(set(OPERATORS) - RANDOM - ELSEWHERE)[0 if ALL else DAY % 2 :: 1 if ALL else 2]
CHUNKS = 8


def first_sample(name: str) -> object | None:
    return next(iter(OPERATORS[name].sample_inputs("cpu", torch.float32)), None)


def compare(name: str) -> bool:
    """True if a replay was compared with a launch, or the capture failed as expected. False without a comparison."""
    sample = first_sample(name)
    if sample is None:
        return False
    given = map_tensors(lambda t: t.to("openreg"), (sample.input, sample.args, sample.kwargs))

    def run():
        first, args, kwargs = map_tensors(torch.clone, given)
        return OPERATORS[name].op(first, *args, **kwargs)

    try:
        expected = run()
        openreg.synchronize()
    except (RuntimeError, AssertionError):
        return False  # tests/ops/test_ops.py reports the error
    graph = openreg.OpenRegGraph()
    try:
        with openreg.graph(graph):
            captured = run()
    except RuntimeError as error:
        if re.search(r"the operator 'aten::\w*(eig|svd|lstsq|inverse|cholesky)\w*', which", str(error)):
            return True  # reads its status on the host, as on CUDA
        assert name in NOT_CAPTURED, f"{name} cannot be captured: {error}"
        reason = NOT_CAPTURED[name]
        in_the_way = reason if " " in reason else f"the operator 'aten::{reason}', which runs synchronously"
        assert in_the_way in str(error), f"{name}: {error}"
        return True
    assert name not in NOT_CAPTURED, f"{name} can be captured: remove it from NOT_CAPTURED"
    for _ in range(2):
        graph.replay()
    openreg.synchronize()  # a result may be in pinned memory
    for a, b in zip(pytree.tree_leaves(expected), pytree.tree_leaves(captured), strict=True):
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a.cpu(), b.cpu(), rtol=0, atol=0, equal_nan=True, msg=name)
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_captured_operators(chunk: int) -> None:
    names = [
        name for name in NAMES[chunk::CHUNKS] if torch.float32 in OPERATORS[name].supported_dtypes("cpu")
    ]
    assert sum(map(compare, names)) > 0.9 * len(names)
