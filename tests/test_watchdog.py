"""The watchdog: streams without progress are reported, with the operator, its line and what the stream waits for."""

import re
import threading
import time
from collections.abc import Callable

import pytest
import torch
from interpreter import python

LIMIT = 0.3


def hold(stream: torch.Stream | None = None) -> torch.openreg.faults:
    """Launches on the stream hang in this block."""
    rule = {"call": "orLaunchKernel", "action": "hang", "times": 1}
    return torch.openreg.faults([rule if stream is None else rule | {"stream": stream}])


@pytest.fixture
def report(capfd) -> Callable[[str], str]:
    """Waits for a report with the text, and returns everything that was reported."""
    seen = []

    def wait_for(words: str) -> str:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            seen.append(capfd.readouterr().err)
            if words in "".join(seen):
                time.sleep(0.2)  # the stacks follow
                seen.append(capfd.readouterr().err)
                break
            time.sleep(0.02)
        return "".join(seen)

    return wait_for


@pytest.mark.host_engine
def test_operator_arguments_line_and_stacks(report):
    side = torch.openreg.Stream()
    x = torch.ones(3, 5, device="openreg")
    torch.openreg.synchronize()
    with (
        torch.openreg.watchdog(LIMIT),
        torch.openreg.schedule("async"),
        hold(side),
        torch.openreg.stream(side),
    ):
        y = x @ x.t()  # hangs
        y + 1
        text = report("watchdog: stream")
    side.synchronize()
    assert re.search(r"openreg: watchdog: stream \d+ of openreg:0, no progress for \d+ ms\n", text), text
    held = r"next:  fault: held before aten::mm \(Float\[3, 5\] Float\[5, 3\]\), submitted by a fault rule at .*test_watchdog.py:\d+ in test_op"
    assert re.search(held, text), text
    assert "waits for no stream that is watched" in text
    assert re.search(r"Thread 0x\w+ \(most recent call first\):\n  File .*test_watchdog.py", text), text


@pytest.mark.host_engine
def test_arguments_of_an_operator(report):
    side, other = torch.openreg.Stream(), torch.openreg.Stream()
    x = torch.ones(3, 5, device="openreg")
    torch.openreg.synchronize()
    with torch.openreg.watchdog(LIMIT), torch.openreg.schedule("async"), hold(other):
        with torch.openreg.stream(other):
            x * 2
        side.wait_event(other.record_event())
        with torch.openreg.stream(side):
            x @ x.t()
        text = report("aten::mm")
    torch.openreg.synchronize()
    line = r"(Float|float32)\[3, 5\].*\), submitted by orLaunchKernel at .*test_watchdog.py:\d+ in test_arguments"
    assert re.search(r"next:  (aten::)?mm \(" + line, text), text
    waits = r"waits at .*test_watchdog.py:\d+ in test_arguments.* for an event that was recorded on stream \d+ of "
    assert re.search(waits + r"openreg:0 at .*test_watchdog.py:\d+", text), text


@pytest.mark.host_engine
def test_failed_stream_raises_with_the_report_and_goes_on(capfd):
    x = torch.ones(3, device="openreg")
    torch.openreg.synchronize()
    with torch.openreg.watchdog(LIMIT, fail=True), torch.openreg.schedule("async"), hold():
        y = x + 1
        with pytest.raises(
            torch.AcceleratorError, match=r"(?s)failed by the watchdog: .*no progress.*test_watchdog.py"
        ):
            y.cpu()
        assert (x + 1).tolist() == [2, 2, 2]
    assert "watchdog" in capfd.readouterr().err


def test_working_programs_are_not_reported(capfd):
    model = torch.nn.Linear(16, 16).to("openreg")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    side = torch.openreg.Stream()
    with torch.openreg.watchdog(LIMIT):
        end = time.monotonic() + 3 * LIMIT
        while time.monotonic() < end:
            side.wait_stream(torch.openreg.current_stream())
            with torch.openreg.stream(side):
                loss = model(torch.ones(4, 16, device="openreg")).sum()
            torch.openreg.current_stream().wait_stream(side)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.openreg.synchronize()
        time.sleep(2 * LIMIT)  # nothing is pending
    assert "watchdog" not in capfd.readouterr().err


def test_stream_that_waits_for_a_working_stream_is_not_reported(capfd):
    first, second = torch.openreg.Stream(), torch.openreg.Stream()
    x = torch.ones(8, device="openreg")
    torch.openreg.synchronize()
    with torch.openreg.watchdog(LIMIT, fail=True):
        with torch.openreg.stream(first):
            for _ in range(12):
                torch.openreg._sleep(50_000_000)
                x.add_(1)
        second.wait_stream(first)
        with torch.openreg.stream(second):
            y = x * 2
        second.synchronize()
    assert y.tolist() == [26] * 8
    assert "watchdog" not in capfd.readouterr().err


@pytest.mark.host_engine
def test_inner_block_fails_what_the_outer_one_has_reported(report):
    side = torch.openreg.Stream()
    x = torch.ones(8, device="openreg")
    torch.openreg.synchronize()
    with torch.openreg.schedule("async"), hold(side), torch.openreg.watchdog(LIMIT):
        with torch.openreg.stream(side):
            x * 2
        report("watchdog: stream")
        with (
            torch.openreg.watchdog(LIMIT, fail=True),
            pytest.raises(torch.AcceleratorError, match="by the watchdog"),
        ):
            side.synchronize()


def test_limits_that_are_never_reached(capfd):
    x = torch.ones(8, device="openreg")
    for seconds in (1e10, 1.2e10, 1e300):
        with torch.openreg.watchdog(seconds, fail=True):
            torch.openreg._sleep(20_000_000)
            assert (x + 1).tolist() == [2] * 8
    assert "watchdog" not in capfd.readouterr().err


def test_line_of_a_replay(report):
    x = torch.ones(8, device="openreg")
    graph = torch.openreg.OpenRegGraph()
    with torch.openreg.graph(graph):
        torch.openreg._sleep(6_000_000_000)  # the watchdog needs a processor in the meantime
        x.mul_(2)
    with torch.openreg.watchdog(LIMIT), torch.openreg.schedule("async"):
        graph.replay()
        text = report("orGraphLaunch")
    torch.openreg.synchronize()
    assert re.search(
        r"submitted by orGraphLaunch at .*test_watchdog.py:\d+ in test_line_of_a_replay", text
    ), text


def test_first_use_after_the_main_thread_has_ended():
    program = """
import threading, time, torch
x = torch.ones(4, device="openreg")
def work():
    threading.main_thread().join()
    with torch.openreg.watchdog(10), torch.openreg.faults([{"call": "orMalloc", "action": "count"}]):
        print((x + 1).tolist())
threading.Thread(target=work).start()
"""
    assert python("-c", program).stdout.strip() == "[2.0, 2.0, 2.0, 2.0]"


def test_work_at_exit_is_not_watched_and_not_subject_to_rules():
    program = "import torch; torch.ones(8, device='openreg').sum().item()"
    rule = '[{"call": "orLaunchKernel", "kernel": "*mul*", "action": "kernel_failure"}]'
    done = python("-c", program, OPENREG_FAULTS=rule, OPENREG_WATCHDOG_SECONDS="5")
    assert done.stderr == ""


def test_blocks_nest_and_reject_wrong_values():
    outer = torch.openreg.watchdog(5)
    with outer:
        with torch.openreg.watchdog(7, fail=True):
            assert torch.openreg.hangs._set(7, True) == (7, True)
        assert torch.openreg.hangs._set(5, False) == (5, False)
        with pytest.raises(RuntimeError, match="already active"):
            outer.__enter__()
    assert torch.openreg.hangs._set(0, False)[0] == 0
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="expected a positive number"):
            torch.openreg.watchdog(seconds)
    with pytest.raises(TypeError, match="seconds is '1': expected a number"):
        torch.openreg.watchdog("1")


PROGRAM = """
import torch
x = torch.ones(3, device="openreg")
y = x + 1
try:
    y.cpu()
except torch.AcceleratorError as error:
    assert "failed by the watchdog" in str(error)
    print("recovered", (x + 1).tolist())
"""
HANG = '[{"call": "orLaunchKernel", "nth": 2, "action": "hang"}]'


@pytest.mark.host_engine
def test_setting_for_a_whole_process():
    settings = {"OPENREG_WATCHDOG_SECONDS": "0.5", "OPENREG_WATCHDOG_FAIL": "1", "OPENREG_FAULTS": HANG}
    done = python("-c", PROGRAM, **settings)
    assert "recovered [2.0, 2.0, 2.0]" in done.stdout
    assert "the default stream of openreg:0, no progress for" in done.stderr
    assert 'File "<string>", line 6 in <module>' in done.stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"OPENREG_WATCHDOG_SECONDS": "soon"}, "OPENREG_WATCHDOG_SECONDS is 'soon'"),
        ({"OPENREG_WATCHDOG_SECONDS": "-1"}, "OPENREG_WATCHDOG_SECONDS is '-1'"),
        ({"OPENREG_WATCHDOG_SECONDS": "1", "OPENREG_WATCHDOG_FAIL": "yes"}, "OPENREG_WATCHDOG_FAIL is 'yes'"),
    ],
)
def test_invalid_settings(settings, words):
    done = python("-c", "import torch; torch.ones(3, device='openreg')", code=1, **settings)
    assert words in done.stderr


@pytest.mark.host_engine
def test_stacks_while_a_thread_holds_the_gil():
    program = """
import ctypes, threading, time, torch
x = torch.ones(3, device="openreg")
torch.openreg.synchronize()
rules = torch.openreg.faults([{"call": "orLaunchKernel", "action": "hang", "times": 1}])
with torch.openreg.watchdog(0.2), rules:
    x + 1
    ctypes.PyDLL(None).usleep(2_500_000)  # holds the GIL
"""
    done = python("-c", program)
    assert "A thread does not release the GIL" in done.stderr
    assert 'File "<string>", line 8 in <module>' in done.stderr


def test_launches_of_many_threads(capfd):
    def work() -> None:
        with torch.openreg.stream(torch.openreg.Stream()):
            for _ in range(200):
                x = torch.ones(64, device="openreg") + 1
            x.cpu()

    with torch.openreg.watchdog(20):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert "watchdog" not in capfd.readouterr().err
