"""Fault rules: the codes and classes of errors that a program meets, and that work continues afterwards."""

import json
import re
import threading
from pathlib import Path

import pytest
import torch
from gpu import skip_with_cuda
from interpreter import execute, python

from torch_openreg import _C, _fault_rules

ROOT = Path(__file__).resolve().parent.parent
HEADERS = [ROOT / "include/openreg/openreg.h", ROOT / "include/openreg/module.h"]


def works(device: int = 0) -> bool:
    x = torch.arange(100.0, device=f"openreg:{device}")
    return (x + 1).sum().item() == 5050


@pytest.fixture(autouse=True)
def correct_afterwards():
    """After every test, both devices work."""
    works(0), works(1)
    yield
    torch.openreg.reset(0)
    torch.openreg.reset(1)
    assert works(0) and works(1)


def fill_cache() -> None:
    """The next allocations need no memory of the runtime."""
    torch.empty(1 << 20, device="openreg")


# ---- Every code

# A program that reaches each code through a rule. A new code in error.h needs a line here.
PROGRAMS = {
    "orErrorInvalidValue": ("orMemcpyAsync", lambda: torch.ones(3).to("openreg")),
    "orErrorInvalidDevice": ("orSetDevice", lambda: torch.openreg.set_device(1)),
    "orErrorInvalidPointer": ("orFree", torch.openreg.empty_cache),
    "orErrorInvalidHandle": ("orEventRecord", lambda: torch.openreg.Stream().record_event()),
    "orErrorNotSupported": (
        "orStreamWaitEvent",
        lambda: torch.openreg.Stream().wait_stream(torch.openreg.Stream()),
    ),
    "orErrorNotReady": ("orStreamQuery", lambda: torch.openreg.current_stream().query()),
    "orErrorOutOfMemory": ("orMalloc", lambda: torch.empty(1 << 28, device="openreg")),
    "orErrorOutOfHostMemory": ("orMallocHost", lambda: torch.empty(1 << 22, pin_memory=True)),
    "orErrorKernelFailed": ("orStreamSynchronize", lambda: torch.openreg.current_stream().synchronize()),
    "orErrorSystem": ("orLaunchKernel", lambda: torch.ones(3, device="openreg") + 1),
    "orErrorForked": ("orDeviceSynchronize", torch.openreg.synchronize),
    "orErrorDeviceLost": ("orMemcpy*", lambda: torch.ones(3, device="openreg").cpu()),
    "orErrorNotPermitted": ("orDeviceSynchronize", torch.openreg.synchronize),
    "orErrorDriver": ("orMalloc", lambda: torch.empty(1 << 28, device="openreg")),
    "orErrorCapture": ("orStreamSynchronize", lambda: torch.openreg.current_stream().synchronize()),
    "orErrorCaptureInvalidated": ("orEventRecord", lambda: torch.openreg.Stream().record_event()),
}


def test_every_code_has_a_program():
    assert set(PROGRAMS) == set(_C.error_codes()) - {"orSuccess"}
    header = (ROOT / "include/openreg/error.h").read_text()
    assert set(_C.error_codes()) == set(re.findall(r"X\((or\w+), \d", header))


PINS_MEMORY = {"orErrorOutOfHostMemory": [skip_with_cuda]}


@pytest.mark.parametrize("code", [pytest.param(code, marks=PINS_MEMORY.get(code, [])) for code in PROGRAMS])
def test_a_program_meets_the_code(code, clean_memory):
    call, program = PROGRAMS[code]
    if code == "orErrorInvalidPointer":
        fill_cache()
    with torch.openreg.faults([{"call": call, "action": "error", "code": code}]) as rules:
        if code == "orErrorNotReady":  # not an error: the stream has work
            assert program() is False
        else:
            with pytest.raises(RuntimeError, match=r"fault rule 0, match \d+ of or") as raised:
                program()
            expected = {"orErrorForked": RuntimeError}.get(code, torch.AcceleratorError)
            expected = torch.OutOfMemoryError if "OutOf" in code else expected
            assert raised.type is expected, raised.value
        assert rules.counts()[0].fired > 0


def test_the_message_names_the_line(clean_memory):
    line = r"match 2 of orMalloc, at .*test_faults.py:\d+ in "
    with (
        torch.openreg.faults([{"call": "orMalloc", "action": "out_of_memory"}]),
        pytest.raises(torch.OutOfMemoryError, match=line),
    ):
        torch.empty(1 << 28, device="openreg")


# ---- Which calls


def test_every_function_of_the_headers_can_fail():
    declared = set()
    for header in HEADERS:
        declared |= set(re.findall(r"^OR_API orError_t (or\w+)\(", header.read_text(), re.MULTILINE))
    without_runtime = {"orSetDriver", "orSetDriverFrom", "orSetDeviceName", "orGetDriverInfo", "orTraceMark"}
    without_runtime |= {f"orTraceRange{name}" for name in ("Push", "Pop", "Start", "End")}
    assert set(_C.fault_calls()) == declared - without_runtime


def test_the_nth_call():
    with torch.openreg.faults(
        [{"call": "orStreamSynchronize", "nth": 3, "action": "error", "code": "orErrorSystem"}]
    ) as rules:
        stream = torch.openreg.current_stream()
        stream.synchronize()
        stream.synchronize()
        with pytest.raises(torch.AcceleratorError, match="match 3 of orStreamSynchronize"):
            stream.synchronize()
        stream.synchronize()
        assert rules.counts() == [(4, 1)]
    assert rules.counts() == [(4, 1)]


def test_selection_by_stream_and_device():
    side, other = torch.openreg.Stream(), torch.openreg.Stream()
    with torch.openreg.faults(
        [{"call": "orStreamSynchronize", "stream": side, "action": "error", "code": "orErrorSystem"}]
    ):
        other.synchronize()
        with pytest.raises(torch.AcceleratorError):
            side.synchronize()
    with torch.openreg.faults(
        [{"call": "orMemcpy*", "device": 1, "action": "error", "code": "orErrorSystem"}]
    ):
        torch.ones(3).to("openreg:0")
        with pytest.raises(torch.AcceleratorError):
            torch.ones(3).to("openreg:1")


@pytest.mark.host_engine
def test_selection_by_kernel():
    with torch.openreg.faults(
        [{"call": "orLaunchKernel", "kernel": "*mul*", "action": "kernel_failure", "message": "broken ALU"}]
    ):
        x = torch.ones(3, device="openreg") + 1
        torch.openreg.synchronize()
        y = x * 2
        with pytest.raises(
            torch.AcceleratorError,
            match=r"(?s)mul.*broken ALU \(fault rule 0, match 1 of orLaunchKernel, at .*test_faults",
        ):
            y.cpu()


# ---- Actions


def test_out_of_memory_is_handled_by_the_allocator():
    """The first failure empties the cache, and the retry succeeds."""
    with torch.openreg.faults([{"call": "orMalloc", "nth": 1, "action": "out_of_memory"}]) as rules:
        x = torch.ones(1 << 26, device="openreg")
        assert rules.counts() == [(2, 1)]
    assert x.sum().item() == 1 << 26


@pytest.mark.simulated
def test_late_work():
    side = torch.openreg.Stream()
    start, end = (torch.openreg.Event(enable_timing=True) for _ in range(2))
    with torch.openreg.faults(
        [{"call": "orMemcpyAsync", "stream": side, "action": "delay", "seconds": 0.05}]
    ):
        with torch.openreg.stream(side):
            start.record()
            torch.ones(10).to("openreg")
            end.record()
        side.synchronize()
    assert start.elapsed_time(end) >= 50


def test_a_hang_until_released():
    side = torch.openreg.Stream()
    x = torch.ones(10, device="openreg")
    side.wait_stream(torch.openreg.current_stream())
    with torch.openreg.faults([{"call": "orLaunch*", "stream": side, "action": "hang"}]) as rules:
        with torch.openreg.stream(side):
            y = x + 1
        if rules.counts()[0].fired == 0:
            pytest.skip("this build adds without a launch")
        assert works()  # on other streams
        assert not side.query()
        rules.release()
        side.synchronize()
        assert y.sum().item() == 20


def test_a_call_that_hangs_releases_the_gil():
    with torch.openreg.faults([{"call": "orDeviceSynchronize", "action": "hang"}]) as rules:
        waiting = threading.Thread(target=torch.openreg.synchronize)
        waiting.start()
        while rules.counts()[0].fired == 0:
            pass
        assert waiting.is_alive()
        rules.release()
        waiting.join()


def test_a_corrupted_copy():
    x = torch.zeros(100, dtype=torch.uint8)
    with torch.openreg.faults([{"call": "orMemcpy*", "action": "corrupt_copy", "bit": 13, "times": 1}]):
        y = x.to("openreg")
    result = y.cpu()
    assert result[1] == 32 and result.sum() == 32


def test_the_corrupted_bit_follows_from_the_seed():
    def corrupted(seed: int) -> torch.Tensor:
        with torch.openreg.faults(
            [{"call": "orMemcpy*", "action": "corrupt_copy", "seed": seed, "times": 1}]
        ):
            y = torch.zeros(1000, dtype=torch.uint8).to("openreg")
        return y.cpu()

    assert corrupted(1).count_nonzero() == 1
    assert torch.equal(corrupted(1), corrupted(1))
    assert not torch.equal(corrupted(1), corrupted(2))


def test_a_lost_device():
    x = torch.ones(3, device="openreg:1")
    torch.openreg.synchronize(1)
    with (
        torch.openreg.faults([{"call": "orDeviceSynchronize", "device": 1, "action": "lose_device"}]),
        pytest.raises(torch.AcceleratorError, match="match 1 of orDeviceSynchronize"),
    ):
        torch.openreg.synchronize(1)
    for use in (
        x.cpu,
        lambda: x + 1,
        lambda: torch.zeros(3, device="openreg:1"),
        lambda: torch.openreg.synchronize(1),
    ):
        with pytest.raises(torch.AcceleratorError, match="device 1 does not respond, since it was lost"):
            use()
    assert works(0)
    torch.openreg.reset(1)
    assert x.sum().item() == 3


@pytest.mark.parametrize(
    "rule", [{"action": "error", "code": "orErrorSystem"}, {"action": "lose_device"}], ids=str
)
def test_a_failed_end_of_a_capture_ends_the_capture(rule):
    side, x = torch.openreg.Stream(), torch.ones(3, device="openreg")
    graph = torch.accelerator.Graph()
    with (
        torch.openreg.faults([{"call": "orStreamEndCapture", **rule}]),
        pytest.raises(torch.AcceleratorError, match="match 1 of orStreamEndCapture"),
        side,
        graph,
    ):
        x.add_(1)
    torch.openreg.reset()
    torch.openreg.synchronize()
    assert not side.is_capturing()
    with side, graph:
        x.add_(2)
    graph.replay()
    assert x.tolist() == [3, 3, 3]


def test_blocks_nest(clean_memory):
    outer = [{"call": "orStreamSynchronize", "nth": 2, "action": "error", "code": "orErrorSystem"}]
    with (
        torch.openreg.faults(outer),
        torch.openreg.faults([{"call": "orMalloc", "action": "count"}]) as inner,
    ):
        torch.openreg.current_stream().synchronize()
        with pytest.raises(torch.AcceleratorError):
            torch.openreg.current_stream().synchronize()
        torch.empty(1 << 28, device="openreg")
        assert inner.counts()[0] == (1, 0)


# ---- The environment variable


PROGRAM = """
import torch
try:
    torch.empty(1 << 28, device="openreg")
except torch.OutOfMemoryError as error:
    print(error)
print(torch.ones(3, device="openreg").sum().item())
"""
RULES = [{"call": "orMalloc", "min_size": 1 << 28, "action": "out_of_memory"}]


def test_rules_of_the_environment(tmp_path):
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(RULES))
    for setting in (json.dumps(RULES), str(file), json.dumps(RULES[0])):
        output = execute(PROGRAM, OPENREG_FAULTS=setting)
        assert "fault rule 0, match 2 of orMalloc" in output and output.endswith("3.0")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("[", "this is not JSON"),
        ("/nowhere/rules.json", "neither JSON nor a file"),
        ('[{"action": "hang"}]', "'call' is missing"),
        ('[{"call": "orMalloc"}]', "'action' is missing"),
        ('[{"call": "orMallok", "action": "hang"}]', "'orMallok' matches no function of the runtime"),
        (
            '[{"call": "orFree", "action": "error", "code": "orErrorNope"}]',
            "unknown error code 'orErrorNope'",
        ),
        ('[{"call": "orFree", "action": "hang", "nht": 1}]', "unknown key 'nht': did you mean 'nth'"),
    ],
)
def test_invalid_rules_of_the_environment(setting, message):
    """``import torch`` succeeds, and the first use of the device has the cause."""
    source = "import torch\ntry: torch.empty(1, device='openreg')\nexcept RuntimeError as error: print(error)"
    output = execute(source, OPENREG_FAULTS=setting)
    assert "OPENREG_FAULTS" in output and message in output, output


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"call": "orMalloc", "action": "hang", "nth": "3"}, "'nth' is '3': expected int"),
        ({"call": "orMalloc", "action": "hang", "nth": -1}, "'nth' is -1"),
        ({"call": "orMalloc", "action": "explode"}, "unknown action 'explode'"),
        ({"call": "orMalloc", "action": "delay"}, "the action 'delay' needs 'seconds'"),
        ({"call": "orMalloc", "action": "hang", "bit": 1}, "'bit' is not a key of the action 'hang'"),
        ({"call": "orMemset", "action": "corrupt_copy"}, "a corrupted copy needs a copy"),
        ({"call": "orMalloc", "action": "hang", "probability": 2}, "probability is not in 0 to 1"),
    ],
)
def test_invalid_rules(rule, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)), torch.openreg.faults([rule]):
        pass


def test_rules_of_other_processes_do_not_apply():
    with torch.openreg.faults([{"call": "orMalloc", "action": "hang", "process": "Spawn*"}]) as rules:
        torch.empty(1 << 28, device="openreg")
        assert rules.counts() == []
    assert len(_fault_rules.as_fields([{"call": "orMalloc", "action": "hang", "process": "Main*"}])) == 1


def test_a_process_with_a_hang_ends():
    hang = json.dumps([{"call": "orLaunch*", "action": "hang"}, {"call": "orMemsetAsync", "action": "hang"}])
    python("-c", "import torch; torch.zeros(3, device='openreg') + 1", OPENREG_FAULTS=hang)


def test_a_process_with_a_thread_that_hangs_ends():
    source = """
    import threading, torch
    torch.openreg.init()
    thread = threading.Thread(target=torch.openreg.synchronize)
    with_rules = torch.openreg.faults([{"call": "orDeviceSynchronize", "action": "hang"}]).__enter__()
    torch.ones(1, device="openreg")
    thread.start()
    while with_rules.counts()[0].fired == 0: pass
    print("waits")
    """
    assert execute(source) == "waits"


def test_a_failure_at_every_synchronization_ends():
    rules = json.dumps([{"call": "orDeviceSynchronize", "action": "error", "code": "orErrorKernelFailed"}])
    python("-c", "import torch; torch.zeros(3, device='openreg')", OPENREG_FAULTS=rules)


def test_the_log_has_the_call(tmp_path):
    log = tmp_path / "log"
    source = f"""
    import torch
    from torch_openreg import _C
    _C.open_fault_log({str(log)!r})
    with torch.openreg.faults([{{"call": "orMalloc", "nth": 1, "action": "out_of_memory"}}]):
        torch.empty(1 << 28, device="openreg")
    """
    execute(source)
    _, rule, match, call, device, site = log.read_text().rstrip("\n").split("\t")
    assert (rule, match, call, device) == ("0", "1", "orMalloc", "0")
    assert re.fullmatch(r"<string>:6 in <module>", site)
