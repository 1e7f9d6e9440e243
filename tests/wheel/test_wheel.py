"""The wheel, in a separate virtual environment with the torch that it was built for."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
USE = "import torch; print(torch.ones(3, device='openreg').sum().item(), torch.openreg.__file__)"


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
            environment,
            "import torch; torch.accelerator.empty_cache(); print(torch.ones(2).sum().item(), "
            "torch.openreg.is_available(), torch.accelerator.memory_allocated())",
        )
    finally:
        build.write_text(before)
    assert done.stdout.split() == ["2.0", "False", "0"], done.stderr
    assert "it was built for torch 1." in done.stderr


@pytest.mark.parametrize("command", [["-m", "torch_openreg", "doctor"], [str(ROOT / "examples" / "demo.py")]])
def test_doctor_and_demo_without_a_compiler(environment, command):
    done = subprocess.run(
        [str(environment / "bin" / "python"), *command],
        capture_output=True,
        text=True,
        cwd=environment,
        env={"PATH": str(environment / "bin"), "HOME": str(environment), "OPENREG_AUTOLOAD": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_contents(environment):
    package = next(environment.glob("lib/python*/site-packages/torch_openreg"))
    names = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    assert {"lib/libopenreg.so", "lib/libtorch_openreg.so", "_build.py", "py.typed"} <= names
    assert not [name for name in names if name.endswith((".cpp", ".in", "CMakeLists.txt"))]
    # Headers for drivers of other packages, and those that the compiler pastes into generated kernels.
    headers = {name for name in names if name.endswith(".h")}
    public = {f"include/openreg/{path.name}" for path in (ROOT / "include" / "openreg").glob("*.h")}
    assert headers == public | {"compiler/kernel_api.h", "compiler/vector_masks.h"}
    assert (package.parent / "bin" / "openreg-driver-check").is_file()  # pip install --target
