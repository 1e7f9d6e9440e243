"""``torch.use_deterministic_algorithms``: new memory is filled as on CUDA, and nondeterministic operators raise."""

import warnings

import pytest
import torch
from blocked_stream import held

FLOATS = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
]
COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
INTEGERS = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
]

pytestmark = pytest.mark.usefixtures("deterministic")


@pytest.fixture
def deterministic():
    fill = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.openreg.synchronize()
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = fill


def is_filled(tensor: torch.Tensor) -> bool:
    host = tensor.cpu()
    if host.dtype.is_complex:
        # As on CUDA: only the real part of the fill value is NaN.
        host = torch.view_as_real(host.to(torch.complex64))[..., 0]
    if host.dtype.is_floating_point:
        return host.to(torch.float32).isnan().all().item()
    largest = 1 if host.dtype == torch.bool else torch.iinfo(host.dtype).max
    return set(host.flatten().tolist()) == {largest}


def dirty(size: int = 4096) -> None:
    """Leaves nonzero bytes in a block that the next allocation of this size reuses."""
    torch.full((size,), 7, dtype=torch.uint8, device="openreg")


@pytest.mark.usefixtures("each_schedule")
@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX, *INTEGERS, torch.bool], ids=str)
def test_every_dtype_is_filled(dtype):
    dirty()
    assert is_filled(torch.empty(100, dtype=dtype, device="openreg"))
    dirty()
    assert is_filled(torch.empty_strided((5, 7), (1, 5), dtype=dtype, device="openreg"))


MAKERS = {
    "empty": lambda like: torch.empty(3, 4, device=like.device),
    "empty, channels last": lambda like: torch.empty(
        2, 3, 4, 5, device=like.device, memory_format=torch.channels_last
    ),
    "empty, out": lambda like: torch.empty((3, 4), out=torch.zeros(3, 4, device=like.device)),
    "empty, no elements": lambda like: torch.empty(0, 3, device=like.device),
    "empty, 0-dim": lambda like: torch.empty((), device=like.device),
    "empty_like": torch.empty_like,
    "empty_strided": lambda like: torch.empty_strided((3, 4), (1, 3), device=like.device),
    "empty_permuted": lambda like: torch.empty_permuted((2, 3, 4), (2, 0, 1), device=like.device),
    "new_empty": lambda like: like.new_empty(3, 4),
    "new_empty_strided": lambda like: like.new_empty_strided((3, 4), (1, 3)),
    "resize_": lambda like: torch.zeros(0, device=like.device).resize_(3, 4),
    "resize_as_": lambda like: torch.zeros(0, device=like.device).resize_as_(like),
}


@pytest.mark.usefixtures("each_schedule")
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("maker", MAKERS)
def test_all_uninitialized_memory_is_filled(maker, index):
    """Equal to the CPU, element by element, on the current device and on another."""
    like = torch.zeros(3, 4, device=f"openreg:{index}")
    dirty()
    made, expected = MAKERS[maker](like), MAKERS[maker](like.cpu())
    assert made.device == like.device and made.stride() == expected.stride()
    torch.testing.assert_close(made.cpu(), expected, equal_nan=True)
    assert expected.isnan().all()


@pytest.mark.usefixtures("each_schedule")
def test_resize_keeps_existing_elements():
    a = torch.arange(4.0, device="openreg").resize_(8)
    assert a[:4].tolist() == [0, 1, 2, 3] and a[4:].isnan().all()


@pytest.mark.parametrize("setting", ["deterministic", "fill"])
def test_memory_is_filled_only_with_both_settings(setting):
    torch.use_deterministic_algorithms(setting == "deterministic")
    torch.utils.deterministic.fill_uninitialized_memory = setting == "fill"
    torch.openreg.reset_operator_stats()
    with torch.openreg.record_operator_stats():
        torch.empty(100, device="openreg")
    assert not any("fill" in name for name in torch.openreg.operator_stats())


def test_filling_does_not_synchronize():
    a = torch.ones(1000, device="openreg")
    stream = torch.openreg.current_stream()
    torch.openreg.synchronize()
    with held(stream):
        made = [
            torch.empty(100, device="openreg"),
            torch.empty_strided((2, 3), (3, 1), device="openreg"),
            torch.empty_like(a),
            torch.ones(2, device="openreg").resize_(100),
        ]
        b = a + 1
        assert not stream.query()
    assert all(one.isnan().any() for one in made) and b.sum().item() == 2000


def test_filling_is_ordered_on_the_current_stream():
    side = torch.openreg.Stream()
    with torch.openreg.stream(side), held(side):
        made = torch.empty(100, device="openreg")
        made.fill_(3)
    assert made.sum().item() == 300


def test_a_graph_fills_at_each_replay():
    graph = torch.openreg.OpenRegGraph()
    with torch.openreg.graph(graph):
        made = torch.empty(100, device="openreg")
        filled = made.clone()
        made.fill_(1)
    for _ in range(2):
        graph.replay()
        assert filled.isnan().all() and made.sum().item() == 100


# ---- Operators without a deterministic implementation


def put(elements: int) -> None:
    a = torch.zeros(elements, device="openreg")
    a.put_(torch.tensor([1, 2], device="openreg"), torch.ones(2, device="openreg"))


def unpool(elements: int) -> None:
    side = int(elements**0.5)
    a = torch.zeros(1, 1, side, side, device="openreg")
    torch.nn.functional.max_unpool2d(a, torch.zeros_like(a, dtype=torch.int64), 2)


@pytest.mark.usefixtures("each_schedule")
@pytest.mark.parametrize("elements", [16, 1 << 18])
@pytest.mark.parametrize("operator", [put, unpool])
def test_nondeterministic_operators_raise_at_the_call(operator, elements):
    """Also for an operator that was launched before the setting changed."""
    torch.use_deterministic_algorithms(False)
    operator(elements)
    torch.openreg.synchronize()
    torch.use_deterministic_algorithms(True)
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        operator(elements)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="does not have a deterministic implementation"):
        operator(elements)
    torch.use_deterministic_algorithms(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operator(elements)
        torch.openreg.synchronize()


@pytest.mark.usefixtures("each_schedule")
def test_deterministic_operators_are_reproducible():
    torch.manual_seed(0)
    index = torch.randint(0, 50, (20_000,), device="openreg")
    values = torch.randn(20_000, device="openreg")
    sums = []
    for _ in range(3):
        torch.use_deterministic_algorithms(True)
        sums.append(torch.zeros(50, device="openreg").index_put_((index,), values, accumulate=True))
        torch.use_deterministic_algorithms(False)  # the kernels may run after this
    assert torch.equal(sums[0], sums[1]) and torch.equal(sums[0], sums[2])
