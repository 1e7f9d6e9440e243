"""Operator statistics, sync debug mode, and reports of CPU fallback kernels.

Each test runs under the async and the blocking schedule.
"""

import threading
import warnings

import pytest
import torch
from blocked_stream import held
from gpu import skip_with_cuda

openreg = torch.openreg


@pytest.fixture(autouse=True, params=["async", "blocking"])
def each_schedule(request):
    with openreg.schedule(request.param):
        yield request.param
    assert openreg.get_sync_debug_mode() == 0
    openreg.reset_operator_stats()


@pytest.fixture
def a():
    return torch.ones(4, 4, device="openreg")


def difference(after, before):
    return {name: getattr(after, name) - getattr(before, name) for name in before._fields}


# ---- Statistics


def test_statistics_are_recorded_only_inside_the_block(a):
    openreg.reset_operator_stats()
    a.fmod(a)
    assert openreg.operator_stats() == {}
    with openreg.record_operator_stats():
        a.fmod(a)
    a.fmod(a)
    assert openreg.operator_stats()["aten::fmod.Tensor"].calls == 1
    openreg.reset_operator_stats()
    assert openreg.operator_stats() == {}


def test_statistics_blocks_nest_and_end_on_exception(a):
    with pytest.raises(KeyError), openreg.record_operator_stats():
        with openreg.record_operator_stats():
            a.fmod(a)
        a.fmod(a)
        raise KeyError
    a.fmod(a)
    assert openreg.operator_stats()["aten::fmod.Tensor"].calls == 2


def test_record_fields(a, each_schedule):
    odd = torch.ones(3, 5, 7, device="openreg")  # a shape that no other test uses
    with openreg.record_operator_stats():
        for _ in range(3):
            odd.fmod(odd)
        a.nonzero()
        a.t()
        a.unfold(0, 2, 2)
    stats = openreg.operator_stats()
    fmod = stats["aten::fmod.Tensor"]
    assert (fmod.calls, fmod.launches, fmod.waits, fmod.bytes) == (3, 3, 0, 3 * odd.nbytes)
    assert 0 < fmod.host_seconds < 60
    if each_schedule == "async":  # the blocking schedule does not use the launch cache
        assert (fmod.cache_hits, fmod.cache_misses) == (2, 1)
    nonzero = stats["aten::nonzero"]
    assert (nonzero.calls, nonzero.launches, nonzero.waits, nonzero.bytes) == (1, 0, 1, 16 * 2 * 8)
    assert "aten::unfold" not in stats  # views have no kernel


def test_in_place_and_out_results_count_as_bytes(a):
    with openreg.record_operator_stats():
        a.fmod_(a)
        torch.fmod(a, a, out=torch.empty_like(a))
    stats = openreg.operator_stats()
    assert stats["aten::fmod_.Tensor"].bytes == a.nbytes
    assert stats["aten::fmod.Tensor_out"].bytes == a.nbytes


def test_copies_are_recorded(a):
    pinned = torch.empty(4, 4).pin_memory()
    with openreg.record_operator_stats():
        a.cpu()
        torch.empty_like(a).copy_(a)
        pinned.copy_(a, non_blocking=True)
    openreg.synchronize()
    copies = openreg.operator_stats()["aten::_copy_from"]
    assert (copies.calls, copies.launches, copies.waits, copies.bytes) == (3, 3, 1, 3 * a.nbytes)


def test_cache_miss_that_runs_synchronously_counts_as_a_wait(each_schedule):
    data = torch.randn(2, 3, 150, 99).to("openreg")  # too large for a dry run
    with openreg.record_operator_stats():
        for _ in range(3):
            torch.nn.functional.batch_norm(data, None, None, training=True)
    (record,) = (r for name, r in openreg.operator_stats().items() if "batch_norm" in name)
    assert (record.calls, record.waits) == (3, 1 if each_schedule == "async" else 0)


def test_operator_that_raises_is_counted(a):
    with openreg.record_operator_stats(), pytest.raises(RuntimeError, match="must match the size"):
        a.fmod(torch.ones(3, device="openreg"))
    record = openreg.operator_stats()["aten::fmod.Tensor"]
    assert record.calls == 1 and record.bytes == 0


def test_counts_of_many_threads_are_exact(a):
    def work():
        for _ in range(200):
            a.fmod(a)

    before = openreg.operator_totals()
    with openreg.record_operator_stats():
        for _ in range(2):  # new threads add to the counts of threads that ended
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert openreg.operator_stats()["aten::fmod.Tensor"].calls == 1600
    assert openreg.operator_totals().launches - before.launches == 1600


def test_backward_is_recorded():
    data = torch.ones(3, 3, device="openreg", requires_grad=True)
    with openreg.record_operator_stats():
        data.tril().sum().backward()
    assert openreg.operator_stats()["aten::tril"].calls == 2


def test_totals_are_always_counted(a, each_schedule):
    a.fmod(a)
    before = openreg.operator_totals()
    a.fmod(a)
    a.nonzero()
    a.cpu()
    counted = difference(openreg.operator_totals(), before)
    hits = 1 if each_schedule == "async" else 0
    assert counted == {"launches": 2, "cache_hits": hits, "cache_misses": 0, "waits": 2}


# ---- Synchronization

WAITS = {
    "item": (lambda a: a.sum().item(), "aten::_local_scalar_dense"),
    "bool": (lambda a: bool(a.sum() > 0), "aten::_local_scalar_dense"),
    "equal": (lambda a: torch.equal(a, a), "aten::equal"),
    "nonzero": (lambda a: a.nonzero(), "aten::nonzero"),
    "masked_select": (lambda a: a.masked_select(a > 0), "aten::masked_select"),
    "mask": (lambda a: a[a > 0], "aten::index.Tensor"),
    "unique": (lambda a: a.unique(), "aten::_unique2"),
    "unique, in a gradient": (lambda a: torch._unique(a), "aten::_unique"),
    "bincount": (lambda a: a.flatten().long().bincount(), "aten::bincount"),
    "repeat_interleave": (lambda a: torch.repeat_interleave(a[0].long()), "aten::repeat_interleave.Tensor"),
    "cpu": (lambda a: a.cpu(), "aten::_copy_from"),
    "cpu, converting": (lambda a: a.to("cpu", torch.float64), "aten::_copy_from"),
    "tolist": (lambda a: a.tolist(), "aten::_copy_from"),
    "to the device": (lambda a: torch.ones(3).to("openreg"), "aten::_copy_from"),
    "not pinned": (lambda a: torch.empty(4, 4).copy_(a, non_blocking=True), "aten::_copy_from"),
}
NO_WAITS = {
    "operators": lambda a: (a @ a).softmax(-1).sum(),
    "views": lambda a: a.t().unfold(0, 2, 2)[1],
    "an index": lambda a: a[a[0].long()],
    "a known size": lambda a: torch.repeat_interleave(a[0].long(), output_size=4),
    "to the host, not blocking": lambda a: a.to("cpu", non_blocking=True),
    "to the device, not blocking": lambda a: torch.ones(3).pin_memory().to("openreg", non_blocking=True),
    "within the device": lambda a: torch.empty_like(a).copy_(a.t()),
    "to another device": lambda a: a.to("openreg:1"),
    "random numbers": lambda a: torch.rand_like(a),
    "first call": lambda a: torch.nn.functional.batch_norm(a, None, None, training=True),
    "attention": lambda a: torch.nn.functional.scaled_dot_product_attention(*[a.view(1, 1, 4, 4)] * 3),
    "synchronize": lambda a: openreg.synchronize(),
    "stream.synchronize": lambda a: openreg.current_stream().synchronize(),
    "event.synchronize": lambda a: openreg.current_stream().record_event().synchronize(),
}


@pytest.mark.parametrize("name", WAITS)
def test_sync_error_names_the_operator(name, a):
    body, operator = WAITS[name]
    openreg.set_sync_debug_mode("error")
    try:
        with pytest.raises(RuntimeError, match=rf"called a synchronizing openreg operation: '{operator}'"):
            body(a)
    finally:
        openreg.set_sync_debug_mode("default")
    body(a)


@pytest.mark.parametrize("name", WAITS)
def test_sync_warning_names_the_operator(name, a):
    body, operator = WAITS[name]
    openreg.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match=f"called a synchronizing openreg operation: '{operator}'"):
            body(a)
    finally:
        openreg.set_sync_debug_mode("default")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        body(a)
    assert not [w for w in caught if "synchronizing" in str(w.message)]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=skip_with_cuda if name == "to the host, not blocking" else ())
        for name in NO_WAITS
    ],
)
def test_async_calls_and_explicit_synchronization_are_not_reported(name, a):
    with openreg.assert_no_sync():
        NO_WAITS[name](a)


def test_sync_error_is_raised_before_synchronizing(a, each_schedule):
    if each_schedule == "blocking":
        pytest.skip("the blocking schedule synchronizes at every launch")
    stream = openreg.Stream()
    stream.wait_stream(openreg.current_stream())
    with openreg.stream(stream), held(stream):
        for body, _ in WAITS.values():
            with pytest.raises(AssertionError), openreg.assert_no_sync():
                body(a)  # synchronizing with a blocked stream would never return
        assert not stream.query()


def test_sync_debug_modes_match_cuda():
    for mode, code in [("warn", 1), ("error", 2), ("default", 0), (1, 1), (2, 2), (0, 0)]:
        openreg.set_sync_debug_mode(mode)
        assert openreg.get_sync_debug_mode() == code
    for mode in ("never", 3, -1):
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            openreg.set_sync_debug_mode(mode)
    assert openreg.get_sync_debug_mode() == 0


def test_assert_no_sync_names_operator_and_line(a):
    with pytest.raises(AssertionError) as raised, openreg.assert_no_sync():
        a.sum().item()  # the line
    assert "'aten::_local_scalar_dense'" in str(raised.value)
    assert f"{__file__}:" in str(raised.value)
    assert str(raised.value).endswith("a.sum().item()  # the line")


def test_assert_no_sync_names_the_line_outside_of_torch(a):
    with pytest.raises(AssertionError, match=r"test_monitor.py:\d+: repr\(a\)$"), openreg.assert_no_sync():
        repr(a)


def test_assert_no_sync_fails_if_the_error_was_caught(a):
    def swallow_error():
        try:
            return a.nonzero()
        except RuntimeError:
            return None

    with pytest.raises(AssertionError, match=r"1 time.*aten::nonzero.*caught"), openreg.assert_no_sync():
        swallow_error()


def test_assert_no_sync_propagates_other_errors_and_restores_the_mode(a):
    openreg.set_sync_debug_mode("warn")
    try:
        with pytest.raises(KeyError), openreg.assert_no_sync():
            raise KeyError
        assert openreg.get_sync_debug_mode() == 1
        with pytest.raises(AssertionError), openreg.assert_no_sync():
            a.nonzero()
        assert openreg.get_sync_debug_mode() == 1
    finally:
        openreg.set_sync_debug_mode("default")


def test_synchronization_in_backward_is_reported(a):
    class SyncInBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, data):
            return data.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * gradient.sum().item()

    result = SyncInBackward.apply(a.requires_grad_()).sum()
    message = r"_local_scalar_dense.*gradient.sum\(\).item\(\)"
    with pytest.raises(AssertionError, match=message), openreg.assert_no_sync():
        result.backward()


# ---- CPU fallback kernels


def test_cpu_fallback_is_allowed_by_default(a):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a.tril()


def test_cpu_fallback_error_names_the_operator(a):
    with (
        pytest.raises(NotImplementedError, match=r"'aten::tril' has no openreg kernel"),
        openreg.fallback("error"),
    ):
        a.tril()
    a.tril()


def test_cpu_fallback_warning_names_the_operator(a):
    with (
        pytest.warns(UserWarning, match=r"'aten::tril' has no openreg kernel"),
        openreg.fallback("warn"),
    ):
        a.tril()


def test_device_kernels_are_not_cpu_fallbacks(a):
    with openreg.fallback("error"):
        torch.empty(3, device="openreg").resize_(5)
        a.view(16).cpu()
        torch.empty_like(a).copy_(a.t())


ALLOWED = [
    "aten::fmod",
    ["aten::fmod.Tensor"],
    ["aten::fmod"],
    ["fmod"],
    ["fmod.Tensor"],
    [torch.ops.aten.fmod],
    [torch.ops.aten.fmod.Tensor],
]


@pytest.mark.parametrize("allowed", ALLOWED, ids=str)
def test_fallback_allow_list(a, allowed):
    with openreg.fallback("error", allow=allowed):
        a.fmod(a)
        with pytest.raises(NotImplementedError, match="aten::tril"):
            a.tril()


def test_fallback_allow_list_distinguishes_overloads(a):
    with openreg.fallback("error", allow=["aten::fmod.Scalar"]), pytest.raises(NotImplementedError):
        a.fmod(a)


def test_fallback_blocks_nest_and_end_on_exception(a):
    with openreg.fallback("error", allow=["fmod"]):
        with pytest.raises(KeyError), openreg.fallback("allow"):
            a.tril()
            raise KeyError
        a.fmod(a)
        with pytest.raises(NotImplementedError):
            a.tril()
    a.tril()


def test_fallback_raises_for_unknown_responses_and_operators():
    with pytest.raises(ValueError, match="invalid response 'no'"):
        openreg.fallback("no")
    with pytest.raises(ValueError, match="unknown operator 'aten::fmo'"):
        openreg.fallback("error", allow=["aten::fmo"])


def test_cpu_fallback_in_backward_is_reported(a):
    data = a.requires_grad_()
    result = data.exp().sum()
    with (
        pytest.raises(NotImplementedError, match="aten::mul"),
        openreg.fallback("error", allow=["ones_like", "fill_"]),
    ):
        result.backward()


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_bytes_of_sparse_results_are_the_sum_of_their_components(layout):
    dense = torch.eye(4, device="openreg")
    sparse = dense.to_sparse(layout=layout)
    with openreg.record_operator_stats():
        made = sparse.clone()
    parts = (
        (made._indices(), made._values())
        if layout == torch.sparse_coo
        else (made.crow_indices(), made.col_indices(), made.values())
    )
    assert openreg.operator_stats()["aten::clone"].bytes == sum(part.nbytes for part in parts)


def test_operators_without_meta_kernels_synchronize_once(each_schedule):
    if each_schedule == "blocking":
        pytest.skip("the blocking schedule has no pending work")
    a = torch.randn(5, 5, device="openreg")
    for operator in (
        lambda: torch.cummax(a, 0),
        lambda: torch.cummin(a, 1),
        lambda: torch.geqrf(a),
        lambda: torch.logcumsumexp(a, 0),
        lambda: torch.histogram(a, 4),
    ):
        operator()
        with openreg.assert_no_sync():
            operator()
