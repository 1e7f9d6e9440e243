"""Pending work and graphs keep their kernels alive: a Library may be destroyed or replaced at any time."""

import gc

import pytest
import torch
from blocked_stream import held

from torch_openreg._torch_versions import HAS_GRAPHS

DEVICE = "openreg"


class Factor:
    def __init__(self, value):
        self.value = value


def make_library(factor: Factor) -> torch.library.Library:
    library = torch.library.Library("passing", "FRAGMENT")
    library.define("scale(Tensor x, *, float by=1) -> Tensor")
    library.impl("scale", lambda x, by=1: x * factor.value * by, "CPU")
    library.impl("scale", lambda x, by=1: torch.empty_like(x), "Meta")
    return library


def destroy(library: torch.library.Library) -> None:
    library._destroy()
    gc.collect()


def scale(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.passing.scale(x)


@pytest.fixture
def x():
    return torch.arange(4.0).to(DEVICE)


def capture(x: torch.Tensor) -> tuple[torch.openreg.OpenRegGraph, torch.Tensor]:
    scale(x)
    graph = torch.openreg.OpenRegGraph()
    with torch.openreg.graph(graph):
        y = scale(x)
    return graph, y


def test_pending_work_runs_after_its_library_is_destroyed(x):
    library = make_library(Factor(2))
    scale(x)
    torch.openreg.synchronize()
    with held(torch.openreg.current_stream()):
        y = scale(x)
        destroy(library)
    assert y.tolist() == [0, 2, 4, 6]


def test_pending_work_calls_the_kernel_at_launch(x):
    made = []
    with held(torch.openreg.current_stream()):
        for factor in (2, 3, 4):
            library = make_library(Factor(factor))
            made.append(scale(x))
            destroy(library)
    assert [y.tolist() for y in made] == [[0, 2, 4, 6], [0, 3, 6, 9], [0, 4, 8, 12]]


@pytest.mark.skipif(not HAS_GRAPHS, reason="this torch has no graphs")
def test_graphs_outlive_libraries(x, each_schedule):
    library = make_library(Factor(2))
    graph, y = capture(x)
    destroy(library)
    library = make_library(Factor(5))
    for start in (1, 2):
        x.fill_(start)
        graph.replay()
        assert y.tolist() == [2 * start] * 4
        assert scale(x).tolist() == [5 * start] * 4
    destroy(library)


def test_cpp_kernels(x):
    library = torch.library.Library("passing", "FRAGMENT")
    library.define("same(Tensor x) -> Tensor")
    library.impl("same", torch.empty_like, "Meta")
    kernel = torch._C._dispatch_library("IMPL", "passing", "CPU", __file__, 0)
    kernel.impl_t_t("same", "CPU")
    torch.ops.passing.same(x)
    torch.openreg.synchronize()
    with held(torch.openreg.current_stream()):
        y = torch.ops.passing.same(x)
        kernel.reset()
        destroy(library)
    assert torch.equal(x, y)


@pytest.mark.filterwarnings("ignore:.*[Oo]verrid")
def test_overridden_cpu_kernel_of_an_aten_operator(x):
    """A CPU kernel that a program overrides temporarily."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("lgamma", lambda x: x * 7, "CPU", allow_override=True)
    with held(torch.openreg.current_stream()):
        y = torch.lgamma(x)
        destroy(library)
    assert y.tolist() == [0, 7, 14, 21]
    torch.testing.assert_close(torch.lgamma(x).cpu(), torch.lgamma(x.cpu()))
