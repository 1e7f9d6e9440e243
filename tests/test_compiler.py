"""torch.compile on the device: Inductor's C++ kernels, launched on the current stream.

Compiling a kernel takes seconds, so each program is small and compiled once, and a test runs it in every schedule.
"""

import pytest
import torch
from blocked_stream import held
from interpreter import doctor, execute
from torch.testing import assert_close

from torch_openreg import _C
from torch_openreg._torch_versions import (
    COMPILED_EVENTS_KEEP_THEIR_PLACE,
    CPP_KERNELS_CHECK_DIVISORS,
    CPP_KERNELS_INDEX_PERMUTED_TENSORS,
)

openreg = torch.openreg
SCHEDULES = ("async", "blocking", "adversarial")


def on(device, *tensors):
    return tuple(tensor.detach().clone().to(device) for tensor in tensors)


def check(function, *inputs, **options):
    """The compiled function on the device equals the function on the CPU, under each schedule."""
    compiled = torch.compile(function, fullgraph=True, **options)
    for name in SCHEDULES:
        expected_inputs, inputs_on_device = on("cpu", *inputs), on("openreg", *inputs)
        expected = function(*expected_inputs)
        with openreg.schedule(name, seed=5):
            result = compiled(*inputs_on_device)
            assert_close(result, expected, check_device=False)
            assert_close(inputs_on_device, expected_inputs, check_device=False)  # mutations
    return compiled


# ---- Results


def test_pointwise_and_reduction():
    check(lambda x, y: ((x * 2 + y).relu().softmax(-1), (x - y).sum(0)), torch.randn(8, 33), torch.randn(33))


def test_inplace_and_views():
    def step(x, y):
        x.t()[2:].add_(y[:, 1:].t()[:1])
        return x[1:].mul_(3).view(-1)[::2]

    check(step, torch.randn(6, 5), torch.randn(6, 5))


def test_dynamic_shapes():
    compiled = torch.compile(lambda x: x.cos() / x.shape[0], dynamic=True, fullgraph=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for rows in (3, 8, 5):
            x = torch.randn(rows, 7)
            assert_close(compiled(x.to("openreg")).cpu(), x.cos() / rows)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_dtypes(dtype):
    check(lambda x: x.sigmoid() * (x > 0), torch.randn(40).to(dtype))


@pytest.mark.skipif(not CPP_KERNELS_INDEX_PERMUTED_TENSORS, reason="torch 2.13 corrected it for C++")
def test_argmax_of_permuted_tensor():
    x = torch.randn(3, 4, 5)
    check(lambda x: x.permute(2, 0, 1).argmax(), x)


def test_every_byte_is_a_bool():
    """A byte that is not 0 is True. A copy of bools would normalize them."""
    mask = torch.tensor([0, 1, 2, 127, 128, 255] * 20, dtype=torch.uint8).to("openreg").view(torch.bool)
    select = torch.compile(lambda mask: torch.where(mask, 1.0, -1.0))
    assert select(mask).tolist() == [-1, 1, 1, 1, 1, 1] * 20


@pytest.mark.parametrize("threads", [1, 2])
def test_sum_of_a_scatter_into_one_element(threads):
    def scatter(x, index):
        return torch.zeros(1, 1, device=x.device).scatter_reduce(0, index, x + 1, "sum")

    with torch._inductor.config.patch({"cpp.threads": threads}):
        check(scatter, torch.randn(33, 1), torch.zeros(33, 1, dtype=torch.int64))


def test_combo_kernels():
    """Only Triton has them, so kernels of the device are not combined."""
    with torch._inductor.config.patch(combo_kernels=True):
        check(lambda x, y: (x.sin(), y.cos().sum(0)), torch.randn(7), torch.randn(5, 3))


@pytest.mark.skipif(not CPP_KERNELS_CHECK_DIVISORS, reason="torch 2.13 made it an error for C++")
def test_integer_division_by_zero_is_an_error_of_the_kernel():
    divide = torch.compile(lambda a, b: a // b)
    a, b = torch.arange(64, device="openreg"), torch.ones(64, dtype=torch.int64, device="openreg")
    assert divide(a, b).tolist() == list(range(64))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(a, torch.zeros_like(b))
        openreg.synchronize()
    assert divide(a, b).tolist() == list(range(64))


def test_host_scalar_and_device_tensor():
    """The result is on the device, whichever argument is first; a host kernel would read device memory."""
    scalar = torch.tensor(2.5)

    def both(x):
        return scalar + x, x * scalar

    x = torch.randn(20)
    for result, expected in zip(torch.compile(both)(x.to("openreg")), both(x), strict=True):
        assert result.device.type == "openreg"
        assert_close(result.cpu(), expected)


def test_host_scalar_has_its_value_of_the_call():
    scalar = torch.tensor(1.0)
    add = torch.compile(lambda x, s: x + s)
    x = torch.zeros(8, device="openreg")
    with held(openreg.current_stream()):
        result = add(x, scalar)
        scalar.fill_(5.0)
    assert result.tolist() == [1.0] * 8


def test_host_and_device_tensors_in_one_graph():
    def mixed(x, y):
        host = (y * 2).sin()
        return x.cos() + host.to("openreg"), host + 1

    x, y = torch.randn(16), torch.randn(16)
    device, host = torch.compile(mixed)(x.to("openreg"), y)
    assert device.device.type == "openreg" and host.device.type == "cpu"
    assert_close(host, (y * 2).sin() + 1)
    assert_close(device.cpu(), x.cos() + (y * 2).sin())


def test_second_device():
    x = torch.randn(12)
    result = torch.compile(lambda x: x.exp() + 1)(x.to("openreg:1"))
    assert result.device.index == 1 and openreg.current_device() == 0
    assert_close(result.cpu(), x.exp() + 1)


def test_autocast():
    layer = torch.nn.Linear(8, 8)
    x = torch.randn(4, 8)

    def step(x):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return layer(x).relu()

    expected = step(x)
    layer.to("openreg")
    result = torch.compile(step)(x.to("openreg"))
    assert result.dtype == torch.bfloat16
    assert_close(result.cpu(), expected, atol=2e-2, rtol=2e-2)


# ---- Training


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
    )


def losses(model, device, compiled=True, steps=4):
    model = model.to(device)
    step = torch.compile(model) if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(1)
    data, target = torch.randn(10, 16).to(device), torch.randint(4, (10,)).to(device)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(step(data), target)
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return [loss.item() for loss in found]


def test_training_has_the_losses_of_the_cpu():
    expected = losses(model(), "cpu", compiled=False)
    for name in SCHEDULES:
        torch._dynamo.reset()  # a new model; the kernels come from the cache
        with openreg.schedule(name, seed=3):
            assert_close(losses(model(), "openreg"), expected)


def test_elements_of_host_tensors():
    """In kernels of the device."""

    def function(x, h, steps):
        low, high = h[0], h.view(2, 2)[1][0]
        y = torch.where(x > low, x, low) * high + torch.clamp(x, low, high)
        return y.masked_fill(y > 1, h[3]), (x * 0).long() + steps * 2, h[2] + 1

    compiled = torch.compile(function, fullgraph=True)
    for i in range(4):
        x, h, steps = torch.randn(9), torch.randn(4), torch.tensor((1 << 40) + i)
        assert_close(compiled(x.openreg(), h, steps), function(x, h, steps), check_device=False)


def test_concatenation_and_padding():
    def function(x, y):
        joined = torch.cat([x.sin(), y * 2, x[:, :3]], 1)
        return joined.relu(), torch.nn.functional.pad(joined + 1, (1, 2))

    check(function, torch.randn(5, 7), torch.randn(5, 4))


def test_training_step_does_not_synchronize():
    net = model().openreg()
    step = torch.compile(net)
    x = torch.randn(10, 16, device="openreg")

    def run():
        net.zero_grad()
        step(x).sum().backward()

    run()
    with openreg.assert_no_sync():
        run()


# ---- Random numbers


def test_random_numbers_follow_the_seed_and_the_offset():
    dropout = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.25))
    x = torch.ones(4000, device="openreg")
    torch.manual_seed(7)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(7)
    assert torch.equal(dropout(x), first) and not torch.equal(first, second)
    assert abs(first.count_nonzero().item() / 4000 - 0.75) < 0.05


# ---- Streams, graphs, memory


def test_launch_is_asynchronous_and_in_stream_order():
    compiled = torch.compile(lambda x: x.tan() * 2)
    x = torch.randn(32)
    device_x = x.to("openreg")
    compiled(device_x)
    with held(openreg.current_stream()):
        result = compiled(device_x)
        assert not openreg.current_stream().query()
        del device_x  # its memory is reused in stream order
        torch.full((32,), float("nan"), device="openreg")
    assert_close(result.cpu(), x.tan() * 2)


@pytest.mark.skipif(not COMPILED_EVENTS_KEEP_THEIR_PLACE, reason="torch 2.13 corrected it")
def test_events_are_recorded_after_the_kernels_before_them():
    start, end = (torch.Event(device="openreg", enable_timing=True) for _ in range(2))

    def work(x):
        # torch 2.15 moves a record that has no operation before it; torch 2.13 fuses kernels across a record.
        y = x @ x
        start.record()
        for _ in range(40):
            y = (y * 1.0001).sin() + x
        end.record()
        return y, x[:100] @ x

    compiled, side = torch.compile(work), openreg.Stream()
    x = torch.randn(800, 800, device="openreg")
    expected = work(x)[0]
    compiled(x)
    for _ in range(3):
        openreg.synchronize()
        y, _ = compiled(x)
        with openreg.stream(side):
            side.wait_event(end)
            copied = y.clone()
            y.record_stream(side)
        openreg.synchronize()
        assert_close(copied, expected, atol=1e-3, rtol=1e-3)
        assert start.elapsed_time(end) > 1  # milliseconds


def test_current_stream():
    compiled = torch.compile(lambda x: x.tan() * 2)
    x = torch.ones(32, device="openreg")
    compiled(x)
    side = openreg.Stream()
    side.wait_stream(openreg.current_stream())
    openreg.synchronize()
    with held(side), openreg.stream(side):
        result = compiled(x)
        assert not side.query() and openreg.default_stream().query()
    assert_close(result.cpu(), torch.ones(32).tan() * 2)


def test_graph_captures_compiled_kernels():
    compiled = torch.compile(lambda x, s: x.tan() * s)
    x, scalar = torch.ones(32, device="openreg"), torch.tensor(2.0)
    compiled(x, scalar)
    graph = torch.accelerator.Graph()
    with openreg.graph(graph):
        result = compiled(x, scalar)
    scalar.fill_(100.0)  # the graph has the value of the capture
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        assert_close(result.cpu(), torch.full((32,), value).tan() * 2)


def test_copy_on_write_is_materialized_only_for_writes():
    read, write = torch.compile(lambda x: x + 1), torch.compile(lambda x: x.add_(1))
    x = torch.zeros(16, device="openreg")
    y = torch._lazy_clone(x)
    assert read(y).tolist() == [1.0] * 16
    assert torch._C._is_cow_tensor(y)
    write(y)
    assert x.tolist() == [0.0] * 16 and y.tolist() == [1.0] * 16


# ---- Names and errors


def test_kernels_have_names_in_statistics_and_profiles():
    compiled = torch.compile(lambda x: x.sinh() + 1)
    x = torch.ones(8, device="openreg")
    compiled(x)
    before = openreg.operator_totals().launches
    with openreg.record_operator_stats():
        compiled(x)
    assert openreg.operator_totals().launches == before + 1
    (name,) = [name for name in openreg.operator_stats() if "sinh" in name]
    assert openreg.operator_stats()[name].launches == 1
    openreg.reset_operator_stats()
    with torch.profiler.profile() as profile:
        compiled(x)
        openreg.synchronize()
    assert name in {event.name for event in profile.events()}


@pytest.mark.parametrize("name", ["async", "blocking"])
def test_error_of_a_kernel_names_it_and_the_line(name):
    lookup = torch.compile(lambda table, index: table[index] * 2)
    table = torch.ones(10, 3, device="openreg")
    lookup(table, torch.tensor([1, 2], device="openreg"))
    with openreg.schedule(name), pytest.raises(RuntimeError) as raised:
        lookup(table, torch.tensor([1, 50], device="openreg"))
        openreg.synchronize()
    assert isinstance(raised.value, torch.AcceleratorError) == (name == "async")
    message = str(raised.value)
    assert "index out of bounds" in message and "cpp_fused_index_mul" in message and __file__ in message
    assert lookup(table, torch.tensor([1, 2], device="openreg")).tolist() == [[2.0] * 3] * 2


@pytest.fixture(scope="module")
def double():
    """A kernel of the device: out[i] = 2 * in[i]."""
    from torch._inductor.async_compile import AsyncCompile

    from torch_openreg.compiler import kernels

    source = """#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const float* in, float* out, const int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = 2 * in[i];
}
"""
    types = ["const float*", "float*", "const int64_t"]
    kernel = kernels.device_kernel(AsyncCompile(), "double", types, [], source)
    return kernel.result() if hasattr(kernel, "result") else kernel


def test_kernel_rejects_arguments_that_do_not_fit(double):
    x, out = torch.ones(4, device="openreg"), torch.empty(4, device="openreg")
    double(x, out, 4, 0)
    assert out.tolist() == [2.0] * 4
    with pytest.raises(
        RuntimeError, match=r"'double' expects a tensor on openreg:0 as argument 0, but got .* on cpu"
    ):
        double(torch.ones(4), out, 4, 0)
    with pytest.raises(
        RuntimeError, match=r"expects a tensor on openreg:1 as argument 0, but got .* on openreg:0"
    ):
        double(x, out, 4, 1)
    with pytest.raises(TypeError, match="expects a tensor, got int"):
        double(1, out, 4, 0)
    with pytest.raises(TypeError, match="takes 3 and a device as arguments, but got 3"):
        double(x, out, 4)
    out.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="expects a tensor with all of its memory"):
        double(x, out, 4, 0)


def test_empty_strided_for_generated_code():
    made = _C.empty_strided((2, 3), (1, 2), torch.int32, 1)
    assert made.stride() == (1, 2) and made.dtype == torch.int32 and made.device == torch.device("openreg:1")
    with pytest.raises(TypeError, match="expected a tuple of integers, got list"):
        _C.empty_strided([2], (1,), torch.int32, 0)


def test_cpp_wrapper_is_refused():
    with (
        torch._inductor.config.patch(cpp_wrapper=True),
        pytest.raises(Exception, match="C\\+\\+ wrapper and AOTInductor do not support the device 'openreg'"),
    ):
        torch.compile(lambda x: x + 3)(torch.ones(3, device="openreg"))


def test_without_a_cpp_compiler():
    """A clear error, and a line of the doctor. The device itself works."""
    output = execute(
        """
        import torch
        x = torch.ones(2, device="openreg")
        try:
            torch.compile(lambda x: x + 1)(x)
        except Exception as error:
            print(error)
        assert torch.compile(lambda x: x + 1, backend="aot_eager")(x).tolist() == [2.0, 2.0]
        """,
        CXX="no-such-compiler",
        TORCHINDUCTOR_FORCE_DISABLE_CACHES="1",
    )
    assert (
        "torch.compile for the device 'openreg' needs a C++ compiler" in output
        and "no-such-compiler" in output
    )
    assert "'no-such-compiler' not found" in doctor(0, CXX="no-such-compiler")


# ---- Registration


def test_nothing_is_imported_before_the_first_compilation():
    execute(
        """
        import sys, torch
        torch.ones(2, device="openreg")
        heavy = ("torch._dynamo", "torch._inductor", "torch_openreg.compiler.codegen")
        assert not [name for name in sys.modules if name.startswith(heavy)]
        """
    )


def test_settings_are_part_of_the_cache_key():
    from torch._inductor.codegen.common import custom_backend_codegen_configs, init_backend_registration

    init_backend_registration()
    saved = custom_backend_codegen_configs["openreg"].save_config_portable()
    assert {"version", "sources", "cpu_capability"} <= set(saved) and all(saved.values())


def test_libraries_of_kernels_share_no_static_objects() -> None:
    """A process that compiles the same normalization for the host and the device ends without a double free."""
    execute(
        """
        import torch
        for device in ("cpu", "openreg"):
            torch._dynamo.reset()
            model = torch.compile(torch.nn.BatchNorm2d(3).to(device))
            model(torch.randn(8, 3, 32, 32, device=device)).square().mean().backward()
        """,
        MALLOC_CHECK_="3",
        LD_PRELOAD="libc_malloc_debug.so.0",
    )
