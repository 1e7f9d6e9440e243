"""The memory check, OPENREG_MEMORY_CHECK=1: each seeded bug is found, and correct programs are silent."""

import subprocess
import sys
from pathlib import Path

import pytest
from interpreter import environment

pytestmark = [pytest.mark.kernel_view, pytest.mark.simulated, pytest.mark.host_engine]

SUPPORT = Path(__file__).resolve().parent / "support"
ROOT = SUPPORT.parent.parent
BEGIN = """
import gc, torch
import native_kernels as native
from blocked_stream import held
def ones(*sizes): return torch.ones(*sizes, device="openreg")
def error():
    try:
        torch.openreg.synchronize()
    except torch.AcceleratorError as found:
        return str(found).splitlines()[0]
    return ""
"""
LINES = BEGIN.count("\n")  # line 1 of a program is this number plus 1
SCHEDULES = ["async", "blocking", "adversarial"]


def python(
    program: str, *arguments: str, schedule: str = "async", **settings: str
) -> subprocess.CompletedProcess:
    command = [sys.executable, *arguments] if program == "" else [sys.executable, "-c", BEGIN + program]
    settings = {"OPENREG_MEMORY_CHECK": "1", "OPENREG_SCHEDULE": schedule, **settings}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        env={**environment([SUPPORT]), **settings},
        cwd=ROOT,
    )


def output(program: str, *arguments: str, **settings: str) -> str:
    """Of a program in which the check finds nothing."""
    done = python(program, *arguments, **settings)
    assert done.returncode == 0, done.stderr
    assert "memory check" not in done.stderr, done.stderr
    return done.stdout


def check_silent(program: str, *arguments: str, **settings: str) -> None:
    """Runs a program whose last line of output is True if its results are right."""
    assert output(program, *arguments, **settings).strip() == "True"


def found(program: str, **settings: str) -> str:
    """The error of a program that prints it. The report is also in stderr, once."""
    done = python(program, **settings)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("openreg: memory check: ") == 1, done.stderr
    report = done.stderr.split("openreg: memory check: ")[1].splitlines()[0]
    assert report in done.stdout
    return done.stdout.strip()


def check_finds(program: str) -> None:
    """Runs a program that checks what was found."""
    done = python(program)
    assert done.returncode == 0 and "openreg: memory check: " in done.stderr, done.stderr


def at(line: int) -> str:
    return f"<string>:{LINES + line} in <module>"


# ---- Bugs


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_read_past_the_end(schedule):
    report = found(
        """x = torch.ones(16, device="openreg")
native.read(x.data_ptr(), 60, 8)
print(error())
""",
        schedule=schedule,
    )
    assert (
        "kernel 'my_lib::read' failed on stream 0 of device 0: my_lib::read reads out of bounds: at offset 64 of a "
        f"block of 64 bytes, allocated at {at(1)} [launched at "
    ) in report
    assert "native_kernels.py:" in report


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_write_past_the_end(schedule):
    report = found("x = ones(1024)\nnative.write(x.data_ptr(), 4096)\nprint(error())", schedule=schedule)
    assert "my_lib::write writes out of bounds: at offset 4096 of a block of 4096 bytes" in report


def test_a_write_just_past_the_end_changes_the_pattern():
    """Between the end of the data, which is aligned, and the guard page."""
    report = found("x = ones(15)\nnative.write(x.data_ptr(), 60)\nprint(error())")
    assert "my_lib::write wrote out of bounds: at offset 60 of a block of 60 bytes" in report


def test_a_write_before_the_beginning():
    report = found("x = ones(15)\nnative.write(x.data_ptr(), -4)\nprint(error())")
    assert "my_lib::write wrote out of bounds: at offset -4 of a block of 60 bytes" in report


def test_an_access_far_before_the_beginning():
    report = found("x = ones(1024)\nnative.read(x.data_ptr(), -4)\nprint(error())")
    assert "my_lib::read reads out of bounds: at offset -4 of a block of 4096 bytes" in report


@pytest.mark.parametrize("access", ["read", "write"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_stale_address(access, schedule):
    report = found(
        f"""x = torch.ones(100, device="openreg")
address = x.data_ptr()
x = None
native.{access}(address, 16)
print(error())
""",
        schedule=schedule,
    )
    assert (
        f"my_lib::{access} {access}s freed memory: at offset 16 of a block of 400 bytes, allocated at {at(1)}, "
        f"freed at {at(3)} [launched at "
    ) in report


@pytest.mark.parametrize("schedule", ["async", "adversarial"])
def test_a_missing_record_stream(schedule):
    program = """x = torch.ones(1000, device="openreg")
side = torch.openreg.Stream()
side.wait_stream(torch.openreg.current_stream())
with torch.openreg.stream(side):
    torch.openreg._sleep(200_000_000)
    y = x.mul(2)
{}
x = None
print(error())
"""
    report = found(program.format(""), schedule=schedule)
    assert "kernel 'aten::mul.Tensor' failed" in report
    assert "aten::mul.Tensor reads freed memory: at offset " in report  # vector code may not begin at 0
    assert f"of a block of 4000 bytes, allocated at {at(1)}, freed at {at(8)}" in report
    assert f"[arguments: Float[1000]; launched at {at(6)}]" in report
    assert output(program.format("x.record_stream(side)"), schedule=schedule).strip() == ""


def test_a_write_around_a_block_is_found_at_the_free():
    """The kernel's arguments do not have the address."""
    report = found("""x, other = ones(15), ones(15)
native.write(other.data_ptr(), x.data_ptr() - other.data_ptr() - 1, 1)
x = None
print(error())
""")
    assert "at offset -1 of a block of 60 bytes" in report


def test_a_block_changed_by_an_unknown_kernel():
    report = found("""x = ones(15)
import ctypes
view = ctypes.c_ssize_t()
native._runtime.orGetKernelViewOffset(ctypes.byref(view), 0)
torch.openreg.synchronize()
ctypes.memset(x.data_ptr() + view.value + 60, 1, 1)
x = None
print(error())
""")
    assert "a kernel wrote out of bounds: at offset 60 of a block of 60 bytes" in report
    assert f"freed at {at(7)}; found at the free" in report


@pytest.mark.parametrize("direction", ["host_to_device", "device_to_host"])
def test_a_copy_of_freed_memory(direction):
    copy = "x.copy_(pinned, non_blocking=True)"
    if direction == "device_to_host":
        copy = "pinned.copy_(x, non_blocking=True)"
    report = found(f"""x = ones(1000)
side = torch.openreg.Stream()
pinned = torch.ones(1000).pin_memory()
with torch.openreg.stream(side):
    torch.openreg._sleep(200_000_000)
    {copy}
x = None
print(error())
""")
    verb = "writes" if direction == "host_to_device" else "reads"
    # memcpy need not begin with the first byte.
    assert f"kernel 'copy' failed on stream 1 of device 0: copy {verb} freed memory: at offset " in report


def test_work_goes_on_after_an_error():
    check_finds("""
x = ones(16)
native.read(x.data_ptr(), 64)
assert "reads out of bounds" in error()
native.read(x.data_ptr(), 64)
assert "reads out of bounds" in error()  # the page is protected again
assert (x + 1).sum().item() == 32
""")


def test_freed_memory_is_nan():
    """A kernel that reads it continues and gets NaN."""
    check_finds("""
x = ones(16)
address = x.data_ptr()
x = None
copied = torch.zeros(16).pin_memory()
import ctypes
native._runtime.orMemcpyAsync.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
stream = torch.openreg.current_stream().native_handle
assert native._runtime.orMemcpyAsync(copied.data_ptr(), address, 64, 2, stream) == 0
assert "copy reads freed memory" in error()
assert copied.isnan().all()
assert torch.empty(1000, device="openreg").isnan().all()
""")


# ---- Correct programs are silent

TRAINING = """
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.LSTM(32, 8)).to("openreg")
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    optimizer.zero_grad()
    out, _ = model(torch.randn(4, 3, 16, device="openreg"))
    out.square().mean().backward()
    optimizer.step()
print(out.isfinite().all().item())
"""
STREAMS = """
side = torch.openreg.Stream()
total = torch.zeros(1000, device="openreg")
for _ in range(50):
    x = ones(1000)
    side.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(side):
        total += x
    x.record_stream(side)
    del x
torch.openreg.synchronize()
print((total == 50).all().item())
"""
GRAPH = """
x = ones(100)
graph = torch.openreg.Graph() if hasattr(torch.openreg, "Graph") else torch.accelerator.Graph()
(x * 2 + 1).sum()
torch.openreg.synchronize()
with torch.openreg.graph(graph):
    y = x * 2
    z = y + 1
    del y
    w = (x + 5)[:10] * z[:10]
for i in range(3):
    x.fill_(i)
    graph.replay()
torch.openreg.synchronize()
del w
graph.replay()
print(z.tolist() == [5.0] * 100)
"""
COPIES = """
x = torch.arange(1000.)
pinned = x.pin_memory()
for _ in range(20):
    y = pinned.to("openreg", non_blocking=True)
    z = y.to("openreg:1").double().t().contiguous().to("openreg:0").float()
    back = torch.empty(1000).pin_memory()
    back.copy_(z, non_blocking=True)
    torch.openreg.synchronize()
    assert back.equal(x), back
print((y[::3].cpu() == x[::3]).all().item())
"""
VIEWS = """
import io
x = ones(10, 10)
y = torch.from_dlpack(x)
buffer = io.BytesIO()
torch.save(x, buffer); buffer.seek(0)
assert torch.load(buffer).sum().item() == 100
s = torch.eye(10, device="openreg").to_sparse()
assert (s @ x).sum().item() == 100
x.resize_(100, 100).fill_(2)
assert torch.linalg.inv(torch.eye(3, device="openreg")).sum().item() == 3
assert x.nonzero().numel() == 20000 and torch.unique(x).item() == 2
a = torch._lazy_clone(x); a += 1
print((x == 2).all().item() and (a == 3).all().item())
"""
PROGRAMS = {"training": TRAINING, "streams": STREAMS, "graph": GRAPH, "copies": COPIES, "views": VIEWS}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_correct_program_is_silent(name, schedule):
    assert output(PROGRAMS[name], schedule=schedule, OPENREG_DEVICE_COUNT="2")


def test_memory_of_another_process_is_silent(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import torch, torch.multiprocessing as mp

def child(queue, answers):
    x = queue.get()
    x += 1
    torch.openreg.synchronize()
    answers.put(x.sum().item())

if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    other = context.Process(target=child, args=(queue, answers))
    other.start()
    x = torch.ones(10, device="openreg")
    queue.put(x)
    assert answers.get(timeout=120) == 20
    other.join()
    print(x.sum().item() == 20)
""")
    check_silent("", str(program))


def test_a_forked_child_is_silent():
    check_silent("""
import os
x = ones(10)
torch.openreg.synchronize()
if (child := os.fork()) == 0:
    del x
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(x.sum().item() == 10)
""")


COMPILED = """
compiled = torch.compile(lambda x: (x.sin() + 1).sum())
x = ones(1000)
assert torch.allclose(compiled(x), (x.sin() + 1).sum())
"""


def test_compiled_kernels():
    check_silent(f"{COMPILED}\nprint(True)")
    report = found(f"""{COMPILED}
side = torch.openreg.Stream()
with torch.openreg.stream(side):
    torch.openreg._sleep(200_000_000)
    y = compiled(x)
x = None
print(error())
""")
    assert "reads freed memory" in report and "of a block of 4000 bytes" in report and "cpp_fused" in report


def test_an_operator_that_writes_around_its_result():
    """The pattern is checked after the operator; here a copy that runs as an operator of the host engine."""
    report = found("""x, y = ones(15), ones(15)
import ctypes
view = ctypes.c_ssize_t()
native._runtime.orGetKernelViewOffset(ctypes.byref(view), 0)
torch.openreg.synchronize()
ctypes.memset(x.data_ptr() + view.value + 60, 1, 1)
x.add_(y)
print(error())
""")
    assert "kernel 'aten::add_.Tensor' failed" in report
    assert "wrote out of bounds: at offset 60 of a block of 60 bytes" in report


@pytest.mark.parametrize("example", ["demo", "image_classifier", "language_model"])
def test_examples_are_silent(example):
    output("", f"examples/{example}.py", *([] if example == "demo" else ["--steps", "3"]))


def test_checkpoints_of_private_pools():
    """The tests of checkpoints, except for one of the peak of a statistic: each block is a segment of its own."""
    selected = ["tests/test_pool_checkpoint.py", "-k", "not test_a_restore_frees_before_it_allocates"]
    output("", "-m", "pytest", "-q", "-p", "no:cacheprovider", *selected)


# ---- Memory


def test_statistics():
    check_silent("""
torch.openreg.empty_cache()
before = torch.openreg.memory_allocated()
x = torch.empty(1000, device="openreg")
assert torch.openreg.memory_allocated() - before == 4096
stats = torch.openreg.memory_stats()
assert stats["requested_bytes.all.current"] == 4000 and stats["active.all.current"] == 1
assert torch.openreg.memory_reserved() >= 4096 + 2 * 4096  # guard pages
reserved = torch.openreg.memory_reserved()
x = None
stats = torch.openreg.memory_stats()
assert torch.openreg.memory_allocated() == before and stats["active.all.current"] == 0
assert torch.openreg.memory_reserved() == reserved  # in the quarantine
torch.openreg.empty_cache()
assert torch.openreg.memory_reserved() == 0 and stats["inactive_split.all.current"] == 0
print(True)
""")


def test_addresses_are_not_reused_before_the_quarantine_is_full():
    program = """
addresses = {torch.empty(1 << 18, device="openreg").data_ptr() for _ in range(20)}
print(len(addresses))
"""
    assert output(program).strip() == "20"
    assert 2 <= int(output(program, OPENREG_MEMORY_CHECK_QUARANTINE="4")) <= 6
    assert output(program, OPENREG_MEMORY_CHECK_QUARANTINE="0").strip() == "1"


def test_the_quarantine_is_emptied_before_the_device_is_out_of_memory():
    check_silent(
        """
for i in range(20):
    x = torch.ones((10 << 18) + i, device="openreg")  # never of the same size
    del x
try:
    torch.empty(200 << 20, dtype=torch.uint8, device="openreg")
except torch.OutOfMemoryError as error:
    print("tried to allocate 200" in str(error).lower())
assert ones(10).sum().item() == 10
""",
        OPENREG_MEMORY="64M",
    )


def test_memory_returns_to_the_runtime_accessible():
    check_silent("""
x = ones(1 << 20)
x = None
torch.openreg.empty_cache()
import ctypes
pointer = ctypes.c_void_p()
assert native._runtime.orMalloc(ctypes.byref(pointer), 8 << 20) == 0
native.write(pointer.value, 0, 8 << 20)
print(error() == "")
""")


def test_many_blocks_without_mappings():
    """Beyond vm.max_map_count the check goes on without protected pages, and says so."""
    mappings = int(Path("/proc/sys/vm/max_map_count").read_text())
    if mappings > 100_000:
        pytest.skip(f"vm.max_map_count is {mappings}")
    done = python(
        f"""
blocks = [torch.empty(1, device="openreg") for _ in range({mappings // 2 + 1000})]
blocks[0].fill_(1)
assert (blocks[0] + 1).item() == 2
del blocks
x = ones(15)
native.write(x.data_ptr(), 60)
print(error())
""",
        OPENREG_MEMORY="2G",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pages cannot be protected any more") == 1 and "vm.max_map_count" in done.stderr
    assert "wrote out of bounds: at offset 60 of a block of 60 bytes" in done.stdout


# ---- Faults that are not of kernels


def test_host_accesses_to_device_memory_still_end_the_process():
    done = python("import ctypes\nctypes.string_at(ones(16).data_ptr(), 1)")
    assert done.returncode == -11, done.stderr


def test_host_accesses_to_freed_memory_end_the_process():
    done = python("""
import ctypes
x = ones(16)
address = x.data_ptr()
view = ctypes.c_ssize_t()
native._runtime.orGetKernelViewOffset(ctypes.byref(view), 0)
torch.openreg.synchronize()
x = None
ctypes.string_at(address + view.value, 1)
""")
    assert done.returncode == -11 and "host code outside of a kernel accesses device memory" in done.stderr


def test_a_handler_of_the_program_gets_other_faults():
    done = python("""
import faulthandler, ctypes
ones(16).sum().item()
faulthandler.enable()
ones(16).sum().item()
ctypes.string_at(64, 1)
""")
    assert done.returncode == -11 and "Fatal Python error: Segmentation fault" in done.stderr


# ---- The setting


def test_the_setting_can_be_off():
    done = python("x = ones(16)\nnative.read(x.data_ptr(), 64)\nprint(error())", OPENREG_MEMORY_CHECK="0")
    assert done.returncode == 0 and done.stdout.strip() == "" and done.stderr == ""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"OPENREG_MEMORY_CHECK": "yes"}, "OPENREG_MEMORY_CHECK is 'yes': expected 0 or 1"),
        (
            {"OPENREG_MEMORY_CHECK_QUARANTINE": "1G"},
            "OPENREG_MEMORY_CHECK_QUARANTINE is '1G': expected a number of MiB",
        ),
    ],
)
def test_an_invalid_setting_is_an_error(settings, message):
    done = python("ones(1)", **settings)
    assert done.returncode != 0 and message in done.stderr
