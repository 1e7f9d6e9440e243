"""The runner of PyTorch's tests, with a minimal checkout."""

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from upstream.expected import Expected, Group, judge
from upstream.report import page
from upstream.results import Result, Store
from upstream.runner import cpu_seconds
from upstream.selection import Selection, parse_shard
from upstream.suite import test_files as files_of
from upstream.translate import translate

ROOT = Path(__file__).resolve().parent.parent

# A test for each outcome.
SOURCE = """
import os, time, unittest
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCPU, onlyCUDA
from torch.testing._internal.common_utils import TestCase

class TestDevice(TestCase):
    def test_a_crash(self, device):
        os.abort()

    def test_b_pass(self, device):
        self.assertEqual(torch.ones(2, device=device).device, torch.device("openreg:0"))

    def test_c_fail(self, device):
        self.assertEqual(torch.ones(2, device=device), torch.zeros(2, device=device))

    def test_d_hang(self, device):
        time.sleep(1000)

    @onlyCUDA
    def test_e_for_cuda(self, device):
        self.assertEqual(self.device_type, "openreg")

    @onlyCPU
    def test_f_for_cpu(self, device):
        self.fail("runs only on the CPU")

    @onlyCUDA
    def test_g_calls_cuda(self, device):
        torch.cuda.init()

    @unittest.expectedFailure
    def test_h_expected_failure(self, device):
        self.fail("a known failure")

    def test_i_also_passes(self, device):
        pass

class TestCUDAOnly(TestCase):
    def test_class_for_cuda(self, device):
        pass

instantiate_device_type_tests(TestDevice, globals())
instantiate_device_type_tests(TestCUDAOnly, globals(), only_for="cuda")
"""

CUDA = """
import torch
from torch.testing._internal.common_utils import TEST_CUDA, TestCase

class TestCuda(TestCase):
    def test_memory(self):
        self.assertTrue(TEST_CUDA)
        x = torch.ones(2, device="cuda")
        self.assertTrue(x.is_cuda and torch.cuda.memory_allocated() > 0)
"""

EXPECTED = """
[[failure]]
whose = "ours"
reason = "Compares ones with zeros."
tests = ["test_torch.py::TestDeviceOPENREG::test_c_fail_openreg"]

[[failure]]
whose = "meaningless"
reason = "Ends the process, or never ends."
tests = ["test_torch.py::TestDeviceOPENREG::test_[ad]_*"]
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("pytorch")
    (root / "test" / "functorch").mkdir(parents=True)
    (root / "test" / "test_torch.py").write_text(SOURCE)
    (root / "test" / "test_cuda.py").write_text(CUDA)
    (root / "test" / "functorch" / "test_broken.py").write_text("import no_such_module")
    return root


def run(checkout: Path, expected: str, build: Path, *arguments: str) -> tuple[int, str, dict[str, Result]]:
    """Runs the suite. Returns the exit status, the output, and the results by the last part of the test id."""
    build.mkdir(parents=True, exist_ok=True)
    (build / "expected.toml").write_text(expected)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "upstream", checkout, *arguments, "--limit", "15"),
            *("--build", build, "--expected", build / "expected.toml", "--page", build / "page.md"),
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tools"), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    results = [
        Result(**json.loads(line))
        for path in (build / "results").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return done.returncode, done.stdout + done.stderr, {r.test.split("::")[-1]: r for r in results}


@pytest.fixture(scope="module")
def ran(checkout, tmp_path_factory) -> tuple[int, str, dict[str, Result], str]:
    build = tmp_path_factory.mktemp("build")
    status, output, results = run(checkout, EXPECTED, build, "test_torch.py", "test_cuda.py")
    return status, output, results, (build / "page.md").read_text()


def test_crash_and_hang_affect_one_test_each(ran):
    status, output, results, _ = ran
    outcomes = {name: result.outcome for name, result in results.items()}
    assert outcomes == {
        "test_a_crash_openreg": "crashed",
        "test_b_pass_openreg": "passed",
        "test_c_fail_openreg": "failed",
        "test_d_hang_openreg": "hung",
        "test_e_for_cuda_openreg": "passed",
        "test_f_for_cpu_openreg": "skipped",
        "test_g_calls_cuda_openreg": "skipped",
        "test_h_expected_failure_openreg": "passed",
        "test_i_also_passes_openreg": "passed",
        "test_class_for_cuda_openreg": "passed",
        "test_memory": "passed",
    }
    assert "SIGABRT" in results["test_a_crash_openreg"].message
    assert "test_d_hang" in results["test_d_hang_openreg"].message, "the stack of the hang is in the log"
    assert "Tensor-likes are not close" in results["test_c_fail_openreg"].message
    assert status == 0, output


def test_the_page_counts_failures_by_owner(ran):
    *_, text = ran
    assert "| test_torch.py | 5 | 1 |  | 2 |  | 2 |" in text
    assert "| test_cuda.py | 1 |  |  |  |  |  |" in text
    assert "- Compares ones with zeros. (1)" in text


def test_a_new_failure_and_an_expected_failure_that_passes_fail_the_run(checkout, tmp_path):
    expected = EXPECTED.replace("test_c_fail_openreg", "test_b_pass_openreg")
    status, output, _ = run(checkout, expected, tmp_path, "test_torch.py", "--match", "*test_[bc]_*")
    assert status == 1
    assert "failed test_torch.py::TestDeviceOPENREG::test_c_fail_openreg" in output
    assert (
        "passes, but is an expected failure: test_torch.py::TestDeviceOPENREG::test_b_pass_openreg" in output
    )


def test_a_file_that_cannot_be_imported_is_one_failure(checkout, tmp_path):
    status, _, results = run(checkout, "", tmp_path, "functorch/test_broken.py")
    assert status == 1
    assert "no_such_module" in results["functorch/test_broken.py"].message


def test_suite_lists_the_files_of_the_checkout(checkout):
    assert [file.name for file in files_of(checkout / "test")] == [
        "test_torch.py",
        "functorch/test_broken.py",
        "test_cuda.py",
    ]


def test_samples_and_shards_are_deterministic():
    tests = [f"test_a.py::TestA::test_{i}" for i in range(100)]
    sample = Selection(sample=10).select(tests)
    assert len(sample) == 10 and sample == Selection(sample=10).select(reversed(tests))
    assert set(sample) <= set(Selection(sample=20).select(tests))
    shards = [Selection(shard=i, shards=3).select(tests) for i in range(3)]
    assert sorted(test for shard in shards for test in shard) == sorted(tests) and all(shards)
    assert parse_shard("2/5") == (1, 5)
    with pytest.raises(ValueError, match="i/n"):
        parse_shard("6/5")


def test_patterns_must_match_a_failure_of_a_complete_run():
    expected = Expected(
        [Group("ours", "why", ("a.py::A::test_*",)), Group("ours", "why", ("a.py::A::gone",))]
    )
    passed = [Result("a.py::A::test_x", "passed")]
    assert judge(passed, expected, frozenset()).good
    assert judge(passed, expected, frozenset({"a.py"})).passes == ["a.py::A::test_*", "a.py::A::gone"]
    one_failed = [*passed, Result("a.py::A::test_y", "failed")]
    assert judge(one_failed, expected, frozenset({"a.py"})).passes == ["a.py::A::gone"]


@pytest.mark.parametrize(
    "entry",
    [
        'whose = "unknown"\nreason = "r"\ntests = ["a"]',
        'whose = "ours"\nreason = " "\ntests = ["a"]',
        'whose = "ours"\nreason = "r"\ntests = []',
        'whose = "ours"\nreason = "r"\ntests = ["a"]\n[[failure]]\nwhose = "ours"\nreason = "r"\ntests = ["a"]',
    ],
)
def test_invalid_entries_raise(entry, tmp_path):
    (tmp_path / "expected.toml").write_text(f"[[failure]]\n{entry}\n")
    with pytest.raises(ValueError, match=r"needs tests|listed twice"):
        Expected.load(tmp_path / "expected.toml")


def test_cpu_seconds_of_a_session_grow_only_while_it_computes():
    programs = {"busy": "while True: pass", "idle": "import time; time.sleep(60)"}
    sessions = {
        name: subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        for name, code in programs.items()
    }
    try:
        end = time.monotonic() + 60
        while cpu_seconds(sessions["busy"].pid) < 0.5 and time.monotonic() < end:
            time.sleep(0.1)
        assert cpu_seconds(sessions["busy"].pid) >= 0.5 > cpu_seconds(sessions["idle"].pid)
    finally:
        for session in sessions.values():
            session.kill()
            session.wait()


def test_the_expected_failures_can_be_read():
    assert Expected.load(ROOT / "tests" / "upstream" / "expected_failures.toml").groups is not None


def test_the_last_result_of_a_test_counts(tmp_path):
    store = Store(tmp_path / "results.jsonl")
    store.add(Result("t", "failed"))
    store.add(Result("t", "passed"))
    assert [result.outcome for result in Store(store.path)] == ["passed"]
    store.add(Result("u", "passed"))
    store.discard("u")
    assert Store(store.path).tests() == ["t"]
    assert "| a | 1 |" in page({"a": store}, Expected(), "2.13.0", "Every test ran.")


def test_translation_replaces_device_names_and_keeps_library_names():
    source = textwrap.dedent("""
        from torch.cuda._memory_viz import plot
        x = torch.ones(1, device="cuda:0").cuda()
        assert x.is_cuda and torch.cuda.CUDAGraph()
        torch.backends.cuda.matmul.allow_tf32 = not torch.version.cuda
        def test_cuda_synchronize(self): ...
    """)
    assert translate(source, "chip", "ChipGraph") == textwrap.dedent("""
        from torch.cuda._memory_viz import plot
        x = torch.ones(1, device="chip:0").chip()
        assert x.is_chip and torch.chip.ChipGraph()
        torch.backends.cuda.matmul.allow_tf32 = not torch.version.cuda
        def test_cuda_synchronize(self): ...
    """)
