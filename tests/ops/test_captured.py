"""Every operator of PyTorch's database in a graph: a replay gives the bits of a launch, or the capture is refused
with the reason.

The first sample in float32, of every second operator unless `make test-ops` asks for all. Operators that draw random
numbers are not here: their functions in the database set generators' states, which a capture refuses;
tests/test_graph.py has them.
"""

import os
import re

import pytest
import torch
from agreement import OPERATORS
from exceptions import ELSEWHERE, RANDOM
from torch.utils import _pytree as pytree

openreg = torch.openreg
ALL = os.environ.get("OPENREG_TEST_OPS") == "all"
NAMES = sorted(set(OPERATORS) - RANDOM - ELSEWHERE)[:: 1 if ALL else 2]
CHUNKS = 8
REFUSED = "which has to run at its call|a copy between host and device|reading a generator's state"


def first_sample(name: str) -> object | None:
    operator = OPERATORS[name]
    if torch.float32 not in operator.supported_dtypes("cpu"):
        return None
    return next(iter(operator.sample_inputs("cpu", torch.float32)), None)


def on_tensors(function, tree):
    return pytree.tree_map(lambda leaf: function(leaf) if isinstance(leaf, torch.Tensor) else leaf, tree)


def is_same(name: str) -> bool | None:
    """Whether a replay equals a launch; False if the capture was refused, None if there is nothing to compare."""
    sample = first_sample(name)
    if sample is None:
        return None
    given = on_tensors(lambda t: t.to("openreg"), (sample.input, sample.args, sample.kwargs))

    def run():
        first, args, kwargs = on_tensors(torch.clone, given)
        return OPERATORS[name].op(first, *args, **kwargs)

    try:
        expected = run()
        openreg.synchronize()
    except (RuntimeError, AssertionError):
        return None  # tests/ops/test_ops.py says why
    graph = openreg.OpenRegGraph()
    try:
        with openreg.graph(graph):
            captured = run()
    except RuntimeError as error:
        assert re.search(REFUSED, str(error)), f"{name}: {error}"
        return False
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
    outcomes = [is_same(name) for name in NAMES[chunk::CHUNKS]]
    assert outcomes.count(None) < 0.1 * len(outcomes)
    assert outcomes.count(False) < 0.15 * len(outcomes)
