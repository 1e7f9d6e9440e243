"""The wheel, in a separate virtual environment with the torch that it was built for."""

import pathlib
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
SITE = pathlib.Path(sysconfig.get_paths()["purelib"])
USE = "import torch; print(torch.ones(3, device='openreg').sum().item(), torch.openreg.__file__)"


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> pathlib.Path:
    """A virtual environment with torch, its dependencies and the wheel."""
    minor = ".".join(metadata.version("torch").split(".")[:2])
    found = (ROOT / "dist").glob(f"torch_openreg-*+torch{minor}-*.whl")
    wheels = sorted(found, key=lambda path: path.stat().st_mtime)
    assert wheels, f"no wheel for torch {minor} in dist/: run `make wheel`"
    home = tmp_path_factory.mktemp("elsewhere")
    venv.create(home / "env", with_pip=False, symlinks=True)
    site = next((home / "env" / "lib").glob("python*")) / "site-packages"
    for entry in SITE.iterdir():
        if not entry.name.startswith(("torch_openreg", "pip", "_torch_openreg")) and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*install, str(wheels[-1])], check=True)
    return home / "env"


def run(environment: pathlib.Path, program: str) -> subprocess.CompletedProcess:
    command = [str(environment / "bin" / "python"), "-c", program]
    return subprocess.run(command, capture_output=True, text=True, cwd=environment)


def test_import_torch_loads_the_backend(environment):
    done = run(environment, USE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "3.0"
    assert str(environment) in done.stdout
    assert done.stderr == ""


def test_installed_wheel_is_relocatable(environment):
    moved = environment.parent / "moved"
    environment.rename(moved)
    try:
        done = run(moved, USE)
        assert done.stdout.startswith("3.0"), done.stderr
    finally:
        moved.rename(environment)


def test_torch_version_mismatch_is_reported(environment):
    build = next(environment.glob("lib/python*/site-packages/torch_openreg/_build.py"))
    before = build.read_text()
    build.write_text(before.replace('TORCH_VERSION = "2.', 'TORCH_VERSION = "1.'))
    try:
        done = run(
            environment, "import torch; print(torch.ones(2).sum().item(), torch.openreg.is_available())"
        )
    finally:
        build.write_text(before)
    assert done.stdout.split() == ["2.0", "False"], done.stderr
    assert "it was built for torch 1." in done.stderr


def test_contents(environment):
    package = next(environment.glob("lib/python*/site-packages/torch_openreg"))
    names = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    assert {"lib/libopenreg.so", "lib/libtorch_openreg.so", "_build.py", "py.typed"} <= names
    assert not [name for name in names if name.endswith((".cpp", ".h", ".in", "CMakeLists.txt"))]
