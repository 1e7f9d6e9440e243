"""`torch.openreg.profiler`: ranges in torch.profiler, and the runtime's trace."""

import threading
import time

import pytest
import torch
from torch.profiler import record_function
from traces import end, row, trace_of

openreg = torch.openreg


@pytest.fixture
def a():
    return torch.ones(8, 8, device="openreg")


def test_device_ranges_enclose_their_kernels(each_schedule, a, tmp_path):
    def body():
        with record_function("outer"):
            a.cos()
            with record_function("inner"):
                a.sin()
                a.tan()
        a.exp()

    trace = trace_of(body, tmp_path)
    ranges = {e["name"]: e for e in trace.of("gpu_user_annotation")}
    kernels = {e["name"]: e for e in trace.of("kernel")}
    assert set(ranges) == {"outer", "inner"}

    def inside(name):
        around = ranges[name]
        return {n for n, e in kernels.items() if around["ts"] <= e["ts"] and end(e) <= end(around) + 0.001}

    assert inside("outer") == {"aten::cos", "aten::sin", "aten::tan"}
    assert inside("inner") == {"aten::sin", "aten::tan"}
    assert row(ranges["inner"]) == row(kernels["aten::sin"])


def test_pushed_ranges_are_in_the_profile_and_the_runtime_trace(a, tmp_path):
    ranges = openreg.profiler

    def body():
        assert ranges.range_push("a range") == 0
        with ranges.range("block {}", 7):
            a.cos()
        ranges.mark("now")
        assert ranges.range_pop() == 0

    trace = trace_of(body, tmp_path)
    assert {"a range", "block 7"} <= {e["name"] for e in trace.of("user_annotation")}
    assert {"a range", "block 7"} == {e["name"] for e in trace.of("gpu_user_annotation")}
    with ranges.record() as recorded:
        body()
    found = {r.name: r for r in recorded.records if r.kind in ("range", "mark")}
    assert found["a range"].work[0] <= found["block 7"].work[0] <= found["block 7"].work[1]
    assert found["block 7"].work[1] <= found["now"].work[0] <= found["a range"].work[1]
    assert found["now"].kind == "mark"


def test_unmatched_range_pop_and_range_end_raise():
    with pytest.raises(RuntimeError, match="no open range"):
        openreg.profiler.range_pop()
    begun = openreg.profiler.range_start("free")
    thread = threading.Thread(target=openreg.profiler.range_end, args=(begun,))
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match=f"no range with the id {begun}"):
        openreg.profiler.range_end(begun)


def test_range_as_decorator():
    @openreg.profiler.range("named")
    def function():
        return 5

    with openreg.profiler.record() as recorded:
        assert function() == 5
    assert [r.name for r in recorded.records if r.kind == "range"] == ["named"]


def test_emit_ranges_covers_forward_and_backward_operators():
    a = torch.ones(8, 8, device="openreg", requires_grad=True)
    with openreg.profiler.record() as recorded:
        with openreg.profiler.emit_ranges(record_shapes=True):
            with record_function("mine"), openreg.profiler.range("pushed"):
                a.mm(a).sum().backward()
            with (
                pytest.raises(RuntimeError, match="a profiler is already active"),
                openreg.profiler.emit_ranges(),
            ):
                pass
        a.detach().cos()
    names = [r.name for r in recorded.records if r.kind == "range"]
    assert sum(name.startswith("aten::mm, seq = ") for name in names) >= 1
    assert "sizes = [[8, 8], [8, 8]]" in next(name for name in names if name.startswith("aten::mm"))
    assert any("MmBackward0" in name for name in names)
    assert sum(name == "mine" or name.startswith("mine,") for name in names) == 1
    assert sum(name.startswith("pushed") for name in names) == 1
    assert not any("aten::cos" in name for name in names)
    kernels = [r for r in recorded.records if r.kind == "kernel"]
    assert {"aten::mm", "aten::cos"} <= {r.name for r in kernels}
    with openreg.profiler.emit_ranges(enabled=False) as nothing:
        assert nothing.enabled is False


# ---- The runtime's trace


def test_runtime_trace(each_schedule, a):
    before = time.monotonic_ns()
    with openreg.profiler.record() as recorded:
        a.cos().cpu()
        side = openreg.Stream(device=1)
        with openreg.stream(side):
            torch.ones(4, device="openreg:1").sin()
    after = time.monotonic_ns()
    named = {r.name: r for r in recorded.records}
    kernel = named["aten::cos"]
    assert (kernel.kind, kernel.device, kernel.stream, kernel.result) == ("kernel", 0, 0, "orSuccess")
    assert before < kernel.call[0] <= kernel.work[0] <= kernel.work[1] < after
    assert kernel.function in ("orLaunchKernel", "orRunKernel")
    assert (named["aten::sin"].device, named["aten::sin"].stream) == (1, side.stream_id)
    assert any(r.kind == "memcpy" and r.bytes == 256 for r in recorded.records)
    assert any(r.kind == "synchronize" and r.call is None for r in recorded.records)
    assert [r.correlation for r in recorded.records] == sorted({r.correlation for r in recorded.records})
