"""``python -m torch_openreg sweep``: which runs there are, how they end, and that programs of the device end well."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from interpreter import environment

from torch_openreg import _C
from torch_openreg.sweep import plan
from torch_openreg.sweep.program import BAD

ROOT = Path(__file__).resolve().parent.parent


def sweep(tmp_path: Path, *arguments: str, code: int) -> tuple[dict, str]:
    """Runs the command and returns its JSON report and its output."""
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "torch_openreg", "sweep", "--json", str(report), *arguments],
        capture_output=True,
        text=True,
        timeout=1200,
        env=environment(),
    )
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(report.read_text()) if report.exists() else {}, done.stdout + done.stderr


# ---- Which runs


def test_every_function_has_a_plausible_error_or_none():
    assert set(plan.CODES) == set(_C.fault_calls())
    assert {code for code in plan.CODES.values() if code} <= set(_C.error_codes())


@pytest.mark.parametrize("action", plan.ACTIONS)
def test_the_rules_are_valid(action):
    for call in plan.CODES:
        if plan.can_fail(call, action):
            with torch.openreg.faults(plan.Case(None, call, 10**9, action).rules()):
                pass


def test_one_run_for_each_call():
    counts = {"MainProcess": {"orMalloc": 2, "orGetDevice": 9, "orLaunchKernel": 1}}
    cases = plan.cases(counts, "plausible", 0, 0)
    assert [(case.call, case.nth) for case in cases] == [
        ("orMalloc", 1),
        ("orMalloc", 2),
        ("orLaunchKernel", 1),
    ]
    assert json.loads(cases[0].setting()) == [
        {"call": "orMalloc", "nth": 1, "action": "error", "code": "orErrorOutOfMemory"}
    ]


def test_runs_name_the_process_if_there_are_several():
    cases = plan.cases({"MainProcess": {"orMalloc": 1}, "consumer": {"orMalloc": 1}}, "plausible", 0, 0)
    assert [case.rules()[0]["process"] for case in cases] == ["MainProcess", "consumer"]


def test_only_work_has_kernel_failures():
    counts = {"MainProcess": {"orMalloc": 2, "orMemcpyAsync": 1}}
    cases = plan.cases(counts, "kernel_failure", 0, 0)
    assert [case.rules() for case in cases] == [
        [{"call": "orMemcpyAsync", "nth": 1, "action": "kernel_failure"}]
    ]


def test_calls_by_pattern():
    counts = {"MainProcess": {"orMalloc": 1, "orMemcpyAsync": 2, "orMemset": 1}}
    cases = plan.cases(counts, "plausible", 0, 0, "orMem*")
    assert [case.call for case in cases] == ["orMemcpyAsync", "orMemcpyAsync", "orMemset"]


def test_a_sample_has_the_first_and_the_last_call():
    counts = {"MainProcess": {"orMalloc": 1000, "orFree": 3}}
    cases = plan.cases(counts, "plausible", 5, seed=1)
    numbers = [case.nth for case in cases if case.call == "orMalloc"]
    assert len(set(numbers)) == 5 and numbers[0] == 1 and numbers[-1] == 1000
    assert [case.nth for case in cases if case.call == "orFree"] == [1, 2, 3]
    assert cases == plan.cases(counts, "plausible", 5, seed=1) != plan.cases(counts, "plausible", 5, seed=2)


# ---- How they end

ENDINGS = {
    "orDeviceSynchronize": "handled",
    "orStreamQuery": "crash",
    "orEventElapsedTime": "leak",
    "orEventQuery": "hang",
    "orMallocHost": "wrong result",
    "orStreamWaitEvent": "error",
}


def test_endings(tmp_path):
    program = str(ROOT / "tests/support/sweep_program.py")
    options = ["--preload", "--jobs", "2", "--timeout", "15", "--sample", "2"]
    report, output = sweep(tmp_path, *options, program, code=1)
    calls = report["calls"]["MainProcess"]
    ends = {call: [run for run in report["runs"] if run["call"] == call] for call in calls}
    for call, ending in ENDINGS.items():
        assert ends[call][0]["ending"] == ending, (call, ends[call])
    assert [run["ending"] for run in ends["orEventRecord"]] == ["error", "unclear error"]
    assert report["digest"] == ["1"]
    for run in report["runs"]:
        assert run["bad"] == (run["ending"] in BAD)
        if run["ending"] in ("crash", "hang", "leak", "wrong result"):
            assert "sweep_program.py:" in run["line"], run
            assert run["command"] in output
    (leak,) = [run for run in report["runs"] if run["ending"] == "leak"]
    assert "bytes of device memory in MainProcess" in leak["leak"]


def test_the_command_repeats_a_run():
    case = plan.Case(None, "orStreamWaitEvent", 1, "plausible")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/support/sweep_program.py")],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(OPENREG_FAULTS=case.setting()),
    )
    assert done.returncode == 1
    assert "fault rule 0, match 1 of orStreamWaitEvent" in done.stderr.splitlines()[-1]


def test_a_program_that_fails_by_itself(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit('no data')")
    _, output = sweep(tmp_path, str(program), code=2)
    assert "no data" in output and "failed without faults" in output
    _, output = sweep(tmp_path, str(tmp_path / "missing.py"), code=2)
    assert "missing.py does not exist" in output


# ---- Programs of the device. make test-sweep fails every call of all of them.

SHORT = {
    "training": ["--call", "or[MG]*", "--sample", "1"],
    "data_loader": ["--call", "orMallocHost", "--sample", "1"],
    "producer_consumer": ["--call", "orIpcOpen*", "--sample", "1"],
}


@pytest.mark.host_engine
@pytest.mark.parametrize("name", SHORT)
def test_programs_end_well(tmp_path, name):
    """No crash, no hang, no leak, and the right result after an error."""
    if name == "data_loader" and torch.cuda.is_available():
        pytest.skip("torch allocates pinned memory from CUDA")
    program = ROOT / "examples/sweep" / f"{name}.py"
    report, output = sweep(tmp_path, "--preload", "--jobs", "2", *SHORT[name], str(program), code=0)
    assert set(Counter(run["ending"] for run in report["runs"])) <= {"handled", "error", "not reached"}
    assert report["digest"] and re.search(r"\d+ of \d+ calls were failed", output)


@pytest.mark.host_engine
def test_a_lost_device_refuses_work_until_its_reset(tmp_path):
    program = str(ROOT / "examples/sweep/training.py")
    options = ["--preload", "--action", "lose_device", "--call", "orGraphLaunch", "--sample", "1"]
    report, _ = sweep(tmp_path, *options, program, code=0)
    assert [run["ending"] for run in report["runs"]] == ["handled"]
