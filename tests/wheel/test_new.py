"""From nothing to a device of one's own: the commands of docs/guide/bring_up.md, in a new environment."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from wheel_environment import ROOT, built_wheel, link_packages

PAGE = ROOT / "docs" / "guide" / "bring_up.md"


def commands() -> list[str]:
    """The first shell block of the page."""
    found = re.search(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1).splitlines()


@pytest.fixture
def variables(tmp_path: pathlib.Path) -> dict[str, str]:
    """Of a machine without network, on which torch and the tools need not be downloaded. The wheel is the only file."""
    (tmp_path / "packages").mkdir()
    link_packages(tmp_path / "packages")
    (tmp_path / "page").mkdir()
    shutil.copy(built_wheel(), tmp_path / "page")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    return {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(tmp_path / "packages"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "page"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def test_from_nothing_in_ten_commands(tmp_path: pathlib.Path, variables: dict[str, str]) -> None:
    script = commands()
    assert len(script) <= 10
    (tmp_path / "work").mkdir()
    done = subprocess.run(
        ["bash", "-ex"],
        input="\n".join(script),
        capture_output=True,
        text=True,
        cwd=tmp_path / "work",
        env=variables,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tensor([2., 2., 2.], device='foo:0')" in done.stdout
    assert re.search(r"\d+ passed, \d+ skipped, 0 failed", done.stdout), "openreg-driver-check"
    assert re.search(r"=+ \d+ passed in", done.stdout), done.stdout  # its tests
    assert "Warning" not in done.stderr, done.stderr
    package = tmp_path / "work" / "torch_foo"
    assert (package / ".github/workflows/test.yml").is_file() and (package / ".gitignore").is_file()
