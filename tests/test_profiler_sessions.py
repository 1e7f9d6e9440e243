"""Several profiles in a process: consecutive, with schedules, with other threads, ended by exceptions."""

import collections
import threading

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from traces import BOTH, Trace, trace_of

openreg = torch.openreg


@pytest.fixture
def a():
    return torch.ones(8, 8, device="openreg")


def test_each_session_records_only_its_own_work(each_schedule, a, tmp_path):
    for operator in ("cos", "sin", "tan"):
        trace = trace_of(lambda name=operator: getattr(a, name)(), tmp_path)
        a.exp()
        assert [e["name"] for e in trace.work] == [f"aten::{operator}"]


def test_schedules_record_the_active_steps(each_schedule, a, tmp_path):
    traces = []
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(
        activities=BOTH, schedule=schedule, on_trace_ready=lambda p: traces.append(Trace(p, tmp_path))
    ) as profiler:
        for number in range(8):
            (a + number).cos()
            profiler.step()
    assert len(traces) == 2
    for trace, first in zip(traces, (2, 6), strict=True):
        assert [e["name"] for e in trace.of("kernel")] == ["aten::add.Tensor", "aten::cos"] * 2
        steps = {e["name"] for e in trace.of("gpu_user_annotation")}
        assert steps == {f"ProfilerStep#{first}", f"ProfilerStep#{first + 1}"}


def test_default_and_single_activities(a, tmp_path):
    assert ProfilerActivity.PrivateUse1 in torch.profiler.supported_activities()
    with profile() as profiler:
        a.cos()
        if torch.cuda.is_available():  # the profiler synchronizes only one device type, and that is CUDA
            openreg.synchronize()
    assert [e["name"] for e in Trace(profiler, tmp_path).work] == ["aten::cos"]
    with profile(activities=[ProfilerActivity.PrivateUse1]) as profiler:
        a.sin()
    trace = Trace(profiler, tmp_path)
    assert [e["name"] for e in trace.work] == ["aten::sin"]
    assert trace.of("cpu_op") == []
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        a.tan()
    trace = Trace(profiler, tmp_path)
    assert trace.work == [] and trace.calls == []
    assert len(trace.named("aten::tan")) == 1


def test_profile_ended_by_an_exception_stops_recording(a, tmp_path):
    with pytest.raises(KeyError), profile(activities=BOTH):
        a.cos()
        raise KeyError
    assert [e["name"] for e in trace_of(lambda: a.sin(), tmp_path).work] == ["aten::sin"]


def test_second_trace_subscriber_is_rejected(a, capfd):
    with openreg.profiler.record() as recorded:
        with profile(activities=BOTH) as profiler:
            a.cos()
        assert "the profiler cannot record openreg activities" in capfd.readouterr().err
        with pytest.raises(RuntimeError, match="only one is possible"), openreg.profiler.record():
            pass
    assert any(e.key == "aten::cos" for e in profiler.key_averages())
    assert "aten::cos" in [r.name for r in recorded.records]


def test_launches_of_other_threads_are_recorded(a, tmp_path):
    def body():
        thread = threading.Thread(target=lambda: [a.cos() for _ in range(20)])
        thread.start()
        for _ in range(20):
            a.sin()
        thread.join()

    trace = trace_of(body, tmp_path)
    assert collections.Counter(e["name"] for e in trace.work) == {"aten::cos": 20, "aten::sin": 20}
    threads = {e["tid"] for e in trace.calls if e["name"].startswith(("orLaunch", "orRun"))}
    assert len(threads) == 2


def test_sessions_begin_and_end_while_other_threads_launch(a):
    ended = threading.Event()
    openreg.synchronize()

    def launch():
        with openreg.stream(openreg.Stream()):
            while not ended.is_set():
                for _ in range(10):
                    a.cos()
                openreg.current_stream().synchronize()

    threads = [threading.Thread(target=launch) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            with profile(activities=BOTH) as profiler:
                for _ in range(20):
                    a.sin()
            events = profiler.profiler.kineto_results.events()
            on_device = [e.name() for e in events if e.device_type() == DeviceType.PrivateUse1]
            assert on_device.count("aten::sin") == 20
            assert set(on_device) <= {"aten::sin", "aten::cos"}
    finally:
        ended.set()
        for thread in threads:
            thread.join()
