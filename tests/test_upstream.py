"""The runner of PyTorch's tests, with a minimal checkout."""

import importlib
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from upstream.distributed_tests import Patcher, error_of_a_rank
from upstream.expected import Expected, Group, judge
from upstream.report import page
from upstream.results import Result, Store
from upstream.runner import cpu_seconds, waiting_seconds
from upstream.selection import Selection, parse_shard
from upstream.suite import choose
from upstream.suite import test_files as files_of
from upstream.summary import Counts, count, load, record, total
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

# Ranks are processes of their own; each must use the device and its backend.
DISTRIBUTED = """
import os
import torch
import torch.distributed as dist
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_distributed import (
    DistributedTestBase, MultiProcContinuousTest, requires_accelerator_dist_backend, skip_if_lt_x_gpu
)

class TestRanks(DistributedTestBase):
    def setUp(self):
        os.environ["OF_THIS_TEST"] = self.id()
        super().setUp()

    @requires_accelerator_dist_backend(["nccl"])
    @skip_if_lt_x_gpu(4)
    def test_a_sum(self, device):
        assert os.environ["OF_THIS_TEST"].endswith("test_a_sum_openreg")
        group = self.create_pg(device)
        ranks = torch.full((2,), self.rank, device=device)
        dist.all_reduce(ranks)
        self.assertEqual(dist.get_backend(group), "occl")
        self.assertEqual(torch.accelerator.current_device_index(), self.rank)
        self.assertEqual(ranks.tolist(), [6, 6])

    @skip_if_lt_x_gpu(8)
    def test_b_too_many_ranks(self, device):
        self.fail("needs eight devices")

    def test_c_exit_status(self, device):
        os._exit(3 if self.rank == 0 else 0)

class TestContinuous(MultiProcContinuousTest):
    world_size = 2

    def test_d_fail(self):
        if self.rank == 1:
            raise ValueError("of rank one")
        dist.barrier()

    def test_e_pass(self):
        dist.barrier()

instantiate_device_type_tests(TestRanks, globals(), only_for=("cuda",))
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
    (root / "test" / "distributed" / "tensor").mkdir(parents=True)
    (root / "test" / "distributed" / "test_device_mesh.py").write_text(DISTRIBUTED)
    (root / "test" / "distributed" / "test_distributed_spawn.py").write_text("")
    (root / "test" / "distributed" / "tensor" / "test_init.py").write_text("")
    (root / "test" / "distributed" / "tensor" / "test_xla_integration.py").write_text("")
    (root / "test" / "test_torch.py").write_text(SOURCE)
    (root / "test" / "test_cuda.py").write_text(CUDA)
    (root / "test" / "functorch" / "test_broken.py").write_text("import no_such_module")
    return root


def run(
    checkout: Path, expected: str, build: Path, *arguments: str, limit: int = 15
) -> tuple[int, str, dict[str, Result]]:
    """Runs the suite. Returns the exit status, the output, and the results by the last part of the test id."""
    build.mkdir(parents=True, exist_ok=True)
    (build / "expected.toml").write_text(expected)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "upstream", checkout, *arguments, "--limit", str(limit)),
            *("--build", build, "--expected", build / "expected.toml"),
            *("--summary", build / "summary.json", "--page", build / "page.md"),
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
    version = torch.__version__.partition("+")[0]
    assert f"| test_torch.py | {version} | 5 | 1 |  | 2 |  | 2 |" in text
    assert f"| test_cuda.py | {version} | 1 |  |  |  |  |  |" in text
    assert "| functorch/test_broken.py | not run |" in text
    assert "| **all** |  | 6 | 1 |  | 2 |  | 2 |" in text
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


def test_folders_select_the_files_of_the_suite_in_them(checkout):
    def chosen(*names: str) -> list[str]:
        return [file.name for file in choose(checkout / "test", list(names))]

    mesh, init = "distributed/test_device_mesh.py", "distributed/tensor/test_init.py"
    spawn = "distributed/test_distributed_spawn.py"
    assert chosen("distributed") == [init, mesh, spawn]
    assert [file.name for file in choose(checkout / "test", ["distributed"]) if file.translated] == [spawn]
    assert chosen("distributed/tensor/", init) == [init]
    assert chosen("functorch", "other/test_x.py") == ["functorch/test_broken.py", "other/test_x.py"]
    assert not any(name.startswith("distributed/") for name in chosen())


def test_ranks_use_the_device_and_its_backend(checkout, tmp_path):
    _, output, results = run(checkout, "", tmp_path, "distributed/test_device_mesh.py", limit=60)
    outcomes = {name: result.outcome for name, result in results.items()}
    assert outcomes == {
        "test_a_sum_openreg": "passed",
        "test_b_too_many_ranks_openreg": "skipped",
        "test_c_exit_status_openreg": "failed",
        "test_d_fail": "failed",
        "test_e_pass": "passed",
    }, output
    assert "Expected exit code 0 but got 3" in results["test_c_exit_status_openreg"].message
    assert results["test_d_fail"].seconds < 50, "rank zero waits until its timeout"


def test_the_error_of_a_rank_comes_first():
    error = "RuntimeError: first line\nsecond line"
    stack = f"Traceback (most recent call last):\n  File a\n    call()\n{error}\nException raised from f at f.cpp:1\n"
    message = (
        f"RuntimeError: Process 1 exited with error code 10 and exception:\n{stack}\nProcess 2 exited with x"
    )
    assert error_of_a_rank(message) == f"{error}\n{message}"
    assert error_of_a_rank("AssertionError: 1 != 2") == "AssertionError: 1 != 2"


def test_a_module_is_patched_after_its_import(tmp_path, monkeypatch):
    (tmp_path / "patched_by_a_test.py").write_text("value = 1")
    monkeypatch.syspath_prepend(tmp_path)
    patches = {"patched_by_a_test": lambda module: setattr(module, "value", module.value + 1)}
    monkeypatch.setattr(sys, "meta_path", [Patcher(patches), *sys.meta_path])
    assert importlib.import_module("patched_by_a_test").value == 2
    del sys.modules["patched_by_a_test"]


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


def test_an_entry_with_a_schedule_counts_only_under_that_schedule(tmp_path):
    entry = 'whose = "ours"\nreason = "r"\ntests = ["a"]\nschedule = "blocking"'
    (tmp_path / "expected.toml").write_text(f"[[failure]]\n{entry}\n")
    assert Expected.load(tmp_path / "expected.toml").find("a") is None
    assert Expected.load(tmp_path / "expected.toml", "adversarial").find("a") is None
    assert Expected.load(tmp_path / "expected.toml", "blocking").find("a").reason == "r"


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not count waiting")
def test_waiting_seconds_of_a_session_grow_only_while_it_waits_for_a_core():
    core = min(os.sched_getaffinity(0))
    busy = f"import os; os.sched_setaffinity(0, [{core}]); print(flush=True)\nwhile True: pass"
    programs = {"first": busy, "second": busy, "idle": "import time; print(flush=True); time.sleep(600)"}
    sessions = {
        name: subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)
        for name, code in programs.items()
    }
    try:
        for session in sessions.values():
            session.stdout.readline()
        before = {name: waiting_seconds(session.pid) for name, session in sessions.items()}

        def waited(name: str) -> float:
            return waiting_seconds(sessions[name].pid) - before[name]

        end = time.monotonic() + 60
        while waited("first") < 0.5 and time.monotonic() < end:
            time.sleep(0.1)
        assert waited("first") >= 0.5 > waited("idle")
    finally:
        for session in sessions.values():
            session.kill()
            session.communicate()


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
    assert count(store, Expected(), "2.13.0") == Counts("2.13.0", passed=1)


def test_a_run_of_some_tests_of_a_file_keeps_the_numbers_of_its_last_complete_run(checkout, tmp_path):
    old = Counts("2.13.0", passed=7, no_reason=1)
    (tmp_path / "summary.json").write_text(json.dumps({"test_torch.py": {"1/1": asdict(old)}}))
    run(checkout, "", tmp_path, "test_torch.py", "--match", "*test_b_*")
    assert load(tmp_path / "summary.json") == {"test_torch.py": {"1/1": old}}
    assert "| test_torch.py | 2.13.0 | 7 |  |  |  | 1 |  |" in (tmp_path / "page.md").read_text()


def test_the_parts_of_a_file_add_up_to_its_row(checkout, tmp_path):
    run(checkout, "", tmp_path, "test_cuda.py", "--shard", "1/2")
    page = (tmp_path / "page.md").read_text()
    assert "| test_cuda.py, 1 of 2 parts |" in page
    # --resume keeps the results of the first part, which must not count twice.
    run(checkout, "", tmp_path, "test_cuda.py", "--shard", "2/2", "--resume")
    parts = load(tmp_path / "summary.json")["test_cuda.py"]
    assert sorted(parts) == ["1/2", "2/2"]
    counts, ran, number = total(parts)
    assert (counts.passed, ran, number) == (1, 2, 2)
    version = torch.__version__.partition("+")[0]
    assert f"| test_cuda.py | {version} | 1 |" in (tmp_path / "page.md").read_text()


def test_a_division_of_a_file_replaces_another_when_it_is_complete():
    old, first, second = Counts("2.13.0", passed=9), Counts("2.13.0", passed=3), Counts("2.13.0", passed=4)
    parts = record({"1/1": old}, "1/2", first)
    assert total(parts) == (old, 1, 1)
    parts = record(parts, "2/2", second)
    assert total(parts) == (Counts("2.13.0", passed=7), 2, 2)
    assert total(record(parts, "1/2", Counts("2.15.0", passed=5))) == (Counts("2.15.0", passed=5), 1, 2)
    assert record(parts, "1/1", old) == {"1/1": old}


def test_the_page_of_the_repository_is_that_of_its_summary():
    """If the expected failures were edited: `python -m upstream CHECKOUT --judge --page docs/upstream.md`."""
    summary = load(ROOT / "tests" / "upstream" / "summary.json")
    expected = Expected.load(ROOT / "tests" / "upstream" / "expected_failures.toml")
    text = (ROOT / "docs" / "upstream.md").read_text()
    rows = re.findall(r"^\| (\S+\.py)[ ,]", text, re.MULTILINE)
    assert set(summary) <= set(rows)
    assert text == page(rows, summary, expected)


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


def test_translation_of_a_distributed_file_also_replaces_the_backend():
    source = 'if torch.cuda.is_available() and dist.is_nccl_available(): init("nccl", dist.Backend.NCCL, NCCL_DEBUG)'
    assert translate(source, "chip", "ChipGraph", "chipcl") == (
        'if torch.chip.is_available() and dist.is_gloo_available(): init("chipcl", dist.Backend.CHIPCL, NCCL_DEBUG)'
    )
    assert "nccl" in translate(source, "chip", "ChipGraph")
