"""The device in ``torch.profiler``: traces and tables.

Tests with ``each_schedule`` run under all three schedules.
"""

import collections
import contextlib
import itertools
import json
import time
import warnings

import pytest
import torch
from blocked_stream import held
from interpreter import execute
from torch.autograd import DeviceType
from torch.profiler import profile, record_function
from traces import BOTH, Trace, end, row, trace_of

openreg = torch.openreg


@pytest.fixture
def a():
    return torch.ones(8, 8, device="openreg")


# ---- A complete training step


class Training:
    """Training steps of a small model whose second half runs on another stream."""

    def __init__(self):
        self.first = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU()).to("openreg")
        self.second = torch.nn.Linear(64, 8).to("openreg")
        parameters = [*self.first.parameters(), *self.second.parameters()]
        self.optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
        self.side = openreg.Stream()
        self.host = torch.randn(16, 32)

    def step(self):
        main = openreg.current_stream()
        self.optimizer.zero_grad()
        hidden = self.first(self.host.to("openreg"))
        self.side.wait_stream(main)
        with openreg.stream(self.side):
            loss = self.second(hidden).square().mean()
        main.wait_stream(self.side)
        hidden.record_stream(self.side)
        loss.backward()
        self.optimizer.step()
        openreg.synchronize()


def test_every_launched_kernel_appears_once_inside_its_step_on_its_stream(each_schedule, tmp_path):
    training = Training()
    training.step()
    openreg.reset_operator_stats()
    with openreg.record_operator_stats(), profile(activities=BOTH) as profiler:
        for number in range(3):
            with record_function(f"step {number}"):
                training.step()
    stats = openreg.operator_stats()
    trace = Trace(profiler, tmp_path)

    # Each kernel once: as many as launches of its operator, and correlation ids are unique.
    kernels = collections.Counter(e["name"] for e in trace.of("kernel"))
    expected = {name: s.launches + s.waits for name, s in stats.items() if s.launches + s.waits}
    copies = expected.pop("aten::_copy_from") - sum(
        s.waits for n, s in stats.items() if n == "aten::_copy_from"
    )
    assert len(trace.of("gpu_memcpy")) + kernels.pop("copy", 0) == copies
    assert kernels == expected
    assert kernels["aten::addmm"] == 2 * 3
    correlations = [e["args"]["correlation"] for e in trace.work]
    assert len(set(correlations)) == len(correlations)

    # Inside its step, and the launch precedes the kernel.
    steps = [trace.named(f"step {number}") for number in range(3)]
    hosts = [next(e for e in found if e["cat"] == "user_annotation") for found in steps]
    per_step = [[e for e in trace.work if h["ts"] <= e["ts"] and end(e) <= end(h)] for h in hosts]
    assert sum(map(len, per_step)) == len(trace.work)
    assert len({tuple(sorted(e["name"] for e in each)) for each in per_step}) == 1
    calls = {e["args"]["correlation"]: e for e in trace.calls}
    for e in trace.work:
        assert calls[e["args"]["correlation"]]["ts"] <= e["ts"]

    # On its stream: the stream of the `with` block. Backward uses the stream of forward.
    streams = {e["tid"] for e in trace.work}
    assert streams == {0, training.side.stream_id}
    on_side = collections.Counter(
        e["name"] for e in trace.of("kernel") if e["tid"] == training.side.stream_id
    )
    assert on_side["aten::addmm"] == 3 and on_side["aten::pow.Tensor_Scalar"] == 2 * 3
    assert on_side["aten::mm"] == 2 * 3  # the second layer's backward
    assert "aten::relu" not in on_side and "aten::threshold_backward" not in on_side

    # Kernels of one stream do not overlap.
    for stream in streams:
        mine = [e for e in trace.work if e["tid"] == stream]
        for before, after in itertools.pairwise(mine):
            assert end(before) <= after["ts"] + 0.001


def test_work_is_linked_to_the_operator_that_launched_it(each_schedule, a, tmp_path):
    trace = trace_of(lambda: (a.mm(a), a.cos()), tmp_path)
    operators = {e["args"]["External id"]: e["name"] for e in trace.of("cpu_op")}
    assert [operators[e["args"]["External id"]] for e in trace.work] == ["aten::mm", "aten::cos"]
    launches = [e for e in trace.calls if "aten::" in operators.get(e["args"].get("External id"), "")]
    assert [operators[e["args"]["External id"]] for e in launches] == ["aten::mm", "aten::cos"]
    for kernel in trace.work:
        arrows = [
            e for e in trace.events if e.get("cat") == "ac2g" and e["id"] == kernel["args"]["correlation"]
        ]
        begin, target = sorted(arrows, key=lambda e: e["ph"], reverse=True)
        assert (begin["ph"], target["ph"]) == ("s", "f")
        assert row(target) == row(kernel)
        assert row(begin) == row(launches[0])


def test_clocks_agree(a, tmp_path):
    """The runtime call is inside its operator, which torch measures with another clock."""
    trace = trace_of(lambda: [a.cos() for _ in range(50)], tmp_path)
    operators = {e["args"]["External id"]: e for e in trace.of("cpu_op")}
    inside = 0
    for call in trace.calls:
        operator = operators.get(call["args"].get("External id"))
        if operator is not None:
            inside += operator["ts"] - 20 <= call["ts"] and end(call) <= end(operator) + 20
    assert inside == 50


def test_copies_and_synchronizations(each_schedule, a, tmp_path):
    def body():
        host = a.cpu()
        a.copy_(host, non_blocking=True)
        openreg.current_stream().synchronize()
        event = openreg.Event()
        event.record()
        event.synchronize()
        openreg.synchronize()

    trace = trace_of(body, tmp_path)
    names = [e["name"] for e in trace.of("gpu_memcpy")]
    assert names == ["Memcpy DtoH (Device -> Host)", "Memcpy HtoD (Host -> Device)"]
    for copy in trace.of("gpu_memcpy"):
        assert copy["args"]["bytes"] == 256
        assert copy["args"]["memory bandwidth (GB/s)"] > 0
        assert (copy["args"]["device"], copy["args"]["stream"]) == (0, 0)
    calls = collections.Counter(e["name"] for e in trace.calls)
    assert calls["orStreamSynchronize"] >= 1
    assert calls["orEventSynchronize"] == 1
    assert calls["orDeviceSynchronize"] >= 1


def test_devices_and_streams_have_named_rows(a, tmp_path):
    b = torch.ones(4, device="openreg:1")
    side = openreg.Stream(device=1)
    side.wait_stream(openreg.default_stream(1))

    def body():
        a.cos()
        with openreg.stream(side):
            b.sin()
        openreg.synchronize(1)

    trace = trace_of(body, tmp_path)
    kernels = {e["name"]: e for e in trace.work}
    assert row(kernels["aten::cos"]) == (0, 0)
    assert row(kernels["aten::sin"]) == (1, side.stream_id)
    assert trace.row_names("thread_name")[1, side.stream_id] == f"stream {side.stream_id}"
    labels = trace.row_names("process_labels")
    assert (labels[0, 0], labels[1, 0]) == ("openreg 0", "openreg 1")
    names = {openreg.get_device_properties(i).name for i in range(openreg.device_count())}
    ours = [d["id"] for d in trace.file["deviceProperties"] if d["name"] in names]  # a GPU is listed, too
    assert ours == list(range(openreg.device_count()))


def test_external_streams_are_recorded(a, tmp_path):
    code = """
        import ctypes, json, pathlib, torch, torch_openreg
        from torch.profiler import profile, ProfilerActivity
        lib = ctypes.CDLL(str(pathlib.Path(torch_openreg.__file__).parent / "lib" / "libopenreg.so"))
        a = torch.ones(4, device="openreg")
        torch.openreg.synchronize()
        handle = ctypes.c_void_p()
        assert lib.orStreamCreate(ctypes.byref(handle)) == 0
        with profile(activities=[ProfilerActivity.PrivateUse1]) as p:
            with torch.openreg.stream(torch.openreg.ExternalStream(handle.value)):
                a.cos()
            torch.openreg.synchronize()
        p.export_chrome_trace("trace.json")
        events = json.load(open("trace.json"))["traceEvents"]
        kernel, = [e for e in events if e.get("cat") == "kernel"]
        assert kernel["tid"] >= 1000, kernel
        assert any(e["name"] == "thread_name" and "external stream" in e["args"]["name"] for e in events)
    """
    execute(code, cwd=tmp_path)


# ---- Kernels on host threads, failed and unfinished work


def test_kernels_run_by_a_synchronizing_host_thread_are_device_work(a, tmp_path):
    """Operators inside a kernel are not recorded, even if the profiled thread runs the kernel."""

    def body():
        x = a
        for _ in range(30):
            x = torch.nn.functional.layer_norm(x, (8,))
        x.cpu()

    body()
    with openreg.schedule("adversarial", seed=1):
        late = trace_of(body, tmp_path)
    with openreg.schedule("blocking"):
        blocking = trace_of(body, tmp_path)
    for trace in (late, blocking):
        assert len(trace.named("aten::native_layer_norm")) == 60
        operators = collections.Counter(e["name"] for e in trace.of("cpu_op"))
        assert operators["aten::native_layer_norm"] == 30
        assert set(operators) <= {
            "aten::layer_norm",
            "aten::native_layer_norm",
            "aten::to",
            "aten::_to_copy",
            "aten::empty_strided",
            "aten::copy_",
            "aten::_copy_from",
        }


def test_shape_inference_is_not_recorded(tmp_path):
    odd = torch.ones(3, 17, device="openreg")  # shapes that no other test uses
    trace = trace_of(lambda: (odd.mm(odd.t()), torch.linalg.vector_norm(odd, dim=1)), tmp_path)
    operators = collections.Counter(e["name"] for e in trace.of("cpu_op"))
    assert operators["aten::mm"] == 1
    assert operators["aten::linalg_vector_norm"] == 1


def test_failed_kernels_have_their_error_code(a, tmp_path):
    wrong = torch.full((1, 1), 99, device="openreg")
    with openreg.schedule("async"), profile(activities=BOTH) as profiler:
        a.gather(0, wrong)
        with pytest.raises(RuntimeError, match="out of bounds"):
            openreg.synchronize()
    (kernel,) = Trace(profiler, tmp_path).named("aten::gather")[-1:]
    assert kernel["args"]["result"] == "orErrorKernelFailed"


def test_unfinished_work_is_counted_but_not_in_the_trace(tmp_path):
    stream = openreg.Stream(device=1)
    b = torch.ones(4, device="openreg:1")
    openreg.synchronize(1)
    with openreg.schedule("async"), contextlib.ExitStack() as stack:
        with profile(activities=BOTH) as profiler, openreg.stream(stream):
            stack.enter_context(held(stream))
            b.cos()
        # The end of the profile synchronizes device 0, but not device 1.
        trace = Trace(profiler, tmp_path)
    assert trace.named("aten::cos")[0]["cat"] == "cpu_op"
    assert trace.work == []
    assert trace.file["openreg_unfinished"] == 2  # the host function that blocks the stream, and the kernel
    after = trace_of(lambda: (b.sin(), openreg.synchronize(1)), tmp_path)
    assert [e["name"] for e in after.work] == ["aten::sin"]


# ---- Tables


def test_tables_have_device_time(each_schedule, a):
    with profile(activities=BOTH) as profiler:
        for _ in range(5):
            a.mm(a)
    rows = {(e.key, e.device_type): e for e in profiler.key_averages()}
    operator = rows["aten::mm", DeviceType.CPU]
    kernel = rows["aten::mm", DeviceType.PrivateUse1]
    assert operator.count == kernel.count == 5
    assert operator.device_time_total > 0
    assert operator.self_device_time_total == pytest.approx(kernel.self_device_time_total)
    assert kernel.self_cpu_time_total == 0
    table = profiler.key_averages().table(sort_by="self_device_time_total")
    assert "Self OPENREG" in table and "Self OPENREG time total" in table


def test_device_time_is_kernel_time():
    big = torch.ones(1000, 1000, device="openreg")
    big.mm(big)
    with profile(activities=BOTH) as profiler:
        start = time.perf_counter()
        for _ in range(3):
            big.mm(big)
        openreg.synchronize()
        wall = (time.perf_counter() - start) * 1e6
    kernels = [e for e in profiler.key_averages() if e.device_type == DeviceType.PrivateUse1]
    busy = sum(e.self_device_time_total for e in kernels)
    assert 0.2 * wall < busy <= wall * 1.01


def test_memory_is_reported(a):
    with profile(activities=BOTH, profile_memory=True) as profiler:
        kept = torch.empty(1000, device="openreg")
        made = a.mm(a)
        del made
    del kept
    rows = {e.key: e for e in profiler.key_averages() if e.device_type == DeviceType.CPU}
    assert rows["aten::empty"].self_device_memory_usage == 4096
    assert rows["aten::mm"].device_memory_usage == 512
    assert rows["[memory]"].self_device_memory_usage == -512
    recorded = [
        e
        for e in profiler.profiler.kineto_results.events()
        if e.name() == "[memory]" and e.device_type() == DeviceType.PrivateUse1
    ]
    assert [e.nbytes() for e in recorded if e.nbytes() > 0].count(4096) == 1


def test_out_of_memory_is_reported():
    with profile(activities=BOTH, profile_memory=True) as profiler, pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 50, dtype=torch.uint8, device="openreg")
    assert any(e.name() == "[OutOfMemory]" for e in profiler.profiler.kineto_results.events())


# ---- torch.autograd.profiler, and options


@pytest.mark.parametrize("use_kineto", [True, False])
def test_autograd_profiler(use_kineto):
    a = torch.ones(128, 128, device="openreg")  # takes longer than a microsecond, which is the unit
    with torch.autograd.profiler.profile(use_device="openreg", use_kineto=use_kineto) as profiler:
        for _ in range(3):
            a.mm(a)
    operators = [
        e for e in profiler.function_events if e.name == "aten::mm" and e.device_type == DeviceType.CPU
    ]
    assert len(operators) == 3
    assert all(e.device_time_total > 0 for e in operators)
    assert "OPENREG" in profiler.key_averages().table()


def test_options(a, tmp_path):
    def body():
        a.mm(a)

    with profile(
        activities=BOTH,
        record_shapes=True,
        with_stack=True,
        with_flops=True,
        profile_memory=True,
        with_modules=True,
    ) as profiler:
        body()
    averages = profiler.key_averages(group_by_input_shape=True)
    (operator,) = [e for e in averages if e.key == "aten::mm" and e.device_type == DeviceType.CPU]
    assert operator.input_shapes == [[8, 8], [8, 8]]
    assert operator.flops == 2 * 8**3
    trace = Trace(profiler, tmp_path)
    assert any("body" in e["name"] for e in trace.of("python_function"))
    assert trace.named("aten::mm")[0]["args"]["Input Dims"] == [[8, 8], [8, 8]]


def test_tensorboard_and_memory_timeline(a, tmp_path):
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path), worker_name="w")
    with profile(
        activities=BOTH, on_trace_ready=handler, record_shapes=True, with_stack=True, profile_memory=True
    ) as profiler:
        kept = [a.mm(a) for _ in range(4)]
    del kept
    (written,) = tmp_path.glob("w.*.pt.trace.json")
    assert any(e.get("cat") == "kernel" for e in json.loads(written.read_text())["traceEvents"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        profiler.export_memory_timeline(str(tmp_path / "memory.json"), device="openreg:0")
    times, sizes = json.loads((tmp_path / "memory.json").read_text())
    assert max(map(sum, sizes)) >= 4 * 512
    assert len(times) == len(sizes)


def test_external_correlation_can_be_disabled(a, tmp_path):
    config = torch._C._profiler._ExperimentalConfig(disable_external_correlation=True)
    trace = trace_of(lambda: a.cos(), tmp_path, experimental_config=config)
    (kernel,) = trace.work
    assert kernel["name"] == "aten::cos" and "External id" not in kernel["args"]


def test_profile_of_a_cpu_program_opens_no_device():
    source = """
        import ctypes, pathlib, torch, torch_openreg
        with torch.profiler.profile() as profiler:
            torch.ones(2).cos()
        assert any(e.key == "aten::cos" for e in profiler.key_averages())
        lib = ctypes.CDLL(str(pathlib.Path(torch_openreg.__file__).parent / "lib" / "libopenreg.so"))
        opened = ctypes.c_int(-1)
        assert lib.orDeviceIsOpen(ctypes.byref(opened), 0) == 0 and opened.value == 0
    """
    execute(source)


def test_exit_during_a_recording():
    """Exit inside torch.profiler.profile is not tested: PyTorch crashes there, with and without a device."""
    source = """
        import torch
        a = torch.ones(300, 300, device="openreg")
        recording = torch.openreg.profiler.record().__enter__()
        torch.openreg.profiler.range_push("open at the end")
        for _ in range(50):
            a.mm(a)
    """
    execute(source)
