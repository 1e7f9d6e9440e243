"""The pytest plug-in: it costs nothing until it is asked, its checks fail tests, and failures name a command that repeats them."""

import re
import shlex
import textwrap
from pathlib import Path

import pytest
import torch
from interpreter import python

PASSED, FAILED, USAGE = 0, 1, 4


def run_tests(folder: Path, source: str, *options: str, code: int = PASSED, **variables: str) -> str:
    """Runs pytest on the source in a process of its own, and returns its output."""
    (folder / "test_program.py").write_text(textwrap.dedent(source))
    arguments = ["-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={folder}", *options]
    done = python(*arguments, cwd=folder, code=code, timeout=600, **variables)
    return done.stdout + done.stderr


def test_without_options_nothing_is_imported(tmp_path):
    source = """
        import sys

        def test_imports():
            assert "pytest_torch_openreg" in sys.modules
            assert not {"torch", "torch_openreg", "numpy"} & set(sys.modules)
    """
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_torch_openreg"}
    run_tests(tmp_path, source, **alone)


FIXTURES = """
import pytest, torch
kept = []

def test_device(openreg_device):
    assert openreg_device == torch.device("openreg:0")
    torch.openreg.set_stream(torch.openreg.Stream())
    torch.openreg.set_device(1)

def test_next(openreg_device):
    assert torch.openreg.current_stream() == torch.openreg.default_stream()
    assert torch.openreg.current_device() == 0

def test_synchronizes(no_sync):
    x = torch.ones(3, device="openreg")
    with no_sync():
        y = x + 1
    assert y.sum().item() == 6
    with no_sync():
        y.sum().item()

@pytest.fixture
def tensor():
    return torch.ones(3, device="openreg")

def test_does_not_leak(no_leak, tensor):
    x = tensor + 1

def test_leaks(no_leak):
    kept.append(torch.ones(3, device="openreg"))  # the leak

def test_faults(faults):
    rules = faults([{"call": "orDeviceSynchronize", "action": "lose_device"}])
    with pytest.raises(torch.AcceleratorError):
        torch.openreg.synchronize()
    assert rules.counts()[0].fired == 1

def test_the_faults_are_over():
    torch.openreg.synchronize()
"""


def test_fixtures(tmp_path):
    output = run_tests(tmp_path, FIXTURES, "-rA", code=FAILED)
    assert set(re.findall(r"^FAILED test_program.py::(\w+)", output, re.MULTILINE)) == {"test_synchronizes"}
    assert set(re.findall(r"^ERROR test_program.py::(\w+)", output, re.MULTILINE)) == {"test_leaks"}
    assert "12 bytes on openreg:0" in output and "# the leak" in output


# A missing wait. The kernel that sleeps exposes it with every seed, also on a busy machine.
UNORDERED = """
import pytest, torch

@pytest.mark.parametrize("size", [1000])
def test_unordered(size):
    side = torch.openreg.Stream()
    x = torch.zeros(size, device="openreg")
    torch.openreg._sleep(200_000_000)
    for _ in range(4):
        x += 1
    with side:
        y = x + 0
    assert y.sum().item() == 4 * size
"""


@pytest.mark.simulated
def test_a_failing_seed_is_repeated_by_its_command(tmp_path):
    output = run_tests(tmp_path, UNORDERED, "--openreg-seeds=6", "-n", "2", code=FAILED)
    assert re.search(r"seed\d", output)
    seed, command = re.search(r"It failed with seed (\d+)\. To repeat it:\n(pytest .*)", output).groups()
    assert shlex.split(command)[1] == "test_program.py::test_unordered[1000]"
    output = run_tests(tmp_path, UNORDERED, *shlex.split(command)[1:], code=FAILED)
    assert f"It failed with seed {seed}." in output and "1 failed" in output


CHECKED = """
import torch
kept = []

def test_leaks():
    kept.append(torch.ones(3, device="openreg"))

def test_fails():
    x = torch.ones(3, device="openreg")
    assert False

def test_is_clean():
    torch.ones(3, device="openreg")

def test_allocates():
    torch.empty(1 << 26, device="openreg")
"""


def test_leaks_and_faults_of_each_test(tmp_path):
    rules = tmp_path / "rules.json"
    rules.write_text('[{"call": "orMalloc", "min_size": 67108864, "action": "out_of_memory"}]')
    options = ["--openreg-leaks", f"--openreg-faults={rules}", "--openreg-schedule=blocking"]
    output = run_tests(tmp_path, CHECKED, *options, code=FAILED)
    assert "1 passed" not in output and "2 failed, 2 passed, 1 error" in output
    assert "12 bytes on openreg:0" in output and "ERROR test_program.py::test_leaks" in output
    assert "fault rule 0, match" in output and "FAILED test_program.py::test_allocates" in output
    assert f"pytest test_program.py::test_allocates {shlex.join(options[2:] + options[:2])}" in output


SWEPT = """
import torch

def test_ignores():
    stream = torch.openreg.current_stream()
    idle = True
    try:
        stream.query()
    except RuntimeError:
        idle = False
    assert idle
"""


def test_sweep(tmp_path):
    output = run_tests(tmp_path, SWEPT, "--openreg-sweep", "--openreg-sweep-sample=1", code=FAILED)
    assert re.search(r"\d+ calls were failed: \d+ handled, \d+ wrong result", output)
    found = re.search(
        r"^wrong result: call 1 of orStreamQuery.*\n +(OPENREG_FAULTS=.*)", output, re.MULTILINE
    )
    setting, *command = shlex.split(found[1])
    assert command == ["python", "-m", "pytest", "test_program.py::test_ignores"]
    name, _, value = setting.partition("=")
    done = python(*command[1:], cwd=tmp_path, code=FAILED, timeout=600, **{name: value})
    assert "assert idle" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--openreg-faults=missing.json"], "neither JSON nor a file"),
        (["--openreg-seeds=0"], "--openreg-seeds needs a number from 1"),
        (["--openreg-seeds=2", "--openreg-schedule=async"], "need the adversarial schedule, not async"),
    ],
)
def test_invalid_options(tmp_path, options, message):
    assert message in run_tests(tmp_path, "", *options, code=USAGE)


RACE = """
import pytest, torch

def test_race():
    side, x = torch.openreg.Stream(), torch.zeros(100, device="openreg")
    torch.openreg.synchronize()
    x += 1
    with side:
        x += 1

@pytest.mark.openreg_ignore("races")
def test_race_on_purpose():
    test_race()

@pytest.mark.openreg_ignore("races", "faults")
def test_unknown_check():
    pass
"""


def test_races(tmp_path):
    if hasattr(torch.openreg, "check_races"):
        output = run_tests(tmp_path, RACE, "--openreg-races", "--strict-markers", code=FAILED)
        assert set(re.findall(r"^ERROR test_program.py::(\w+)", output, re.MULTILINE)) == {
            "test_race",
            "test_unknown_check",
        }
        assert "openreg_ignore: unknown checks ['faults']" in output
    else:
        output = run_tests(tmp_path, RACE, "--openreg-races", code=USAGE)
        assert "--openreg-races: this build has no race check" in output
