"""`make test-versions`: the table of torch versions."""

import subprocess
from pathlib import Path

import torch_version
import versions

ROOT = Path(__file__).parent.parent


def test_counts_of_all_summaries_are_added():
    output = (
        "....\n1 failed, 20 passed, 3 skipped, 2 warnings in 4.50s (0:00:04)\n"
        "5 passed, 100 deselected in 1.00s\n== 2 errors in 0.10s ==\n20 passed of something else\n"
    )
    assert versions.outcome_counts(output) == {"passed": 25, "failed": 3, "skipped": 3}


def test_table():
    counts = {"passed": 2, "failed": 0, "skipped": 1}
    good = versions.Result("2.13.0", True, counts, True)
    bad = versions.Result("2.14.0", False, dict.fromkeys(versions.OUTCOMES, 0), False)
    assert good.good and not bad.good
    assert not versions.Result("2.13.0", True, counts, finished=False).good
    lines = versions.table([good, bad]).splitlines()
    assert lines[2] == "| 2.13.0 | yes | 2 | 0 | 1 |" and lines[3] == "| 2.14.0 | no | 0 | 0 | 0 |"


def test_the_newest_torch_of_a_python():
    assert torch_version.exists_for((3, 11), "2.15.0") and not torch_version.exists_for((3, 10), "2.15.0")
    assert torch_version.exists_for((3, 10), "2.14.1") and torch_version.exists_for((3, 13), "2.16.0")


def test_versions_that_cannot_be_built_with():
    assert (
        torch_version.why_not("2.11.0", (3, 11)) == "" == torch_version.why_not("2.16.0.dev20261101", (3, 11))
    )
    assert "not a version" in torch_version.why_not("latest", (3, 11))
    assert "the oldest supported version is 2.11.0" in torch_version.why_not("2.9.0", (3, 11))
    assert "does not exist for Python 3.10" in torch_version.why_not("2.15.0", (3, 10))


def test_make_rejects_them_before_it_creates_an_environment():
    done = subprocess.run(["make", "-n", "build", "TORCH=latest"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "TORCH=latest is not a version of torch" in done.stderr


def test_the_installed_torch_is_used_if_it_is_supported(monkeypatch):
    for version, used in {"2.13.0+cpu": "2.13.0", "2.9.1": "", "2.16.0.dev20261101+cpu": ""}.items():
        monkeypatch.setattr(torch_version.metadata, "version", lambda _, version=version: version)
        assert torch_version.installed() == used
