"""A vendor's package, examples/drivers/foo, beside the installed wheel: the device is named by it, and passes the tests."""

import pathlib
import shutil
import subprocess
from dataclasses import dataclass

import pytest
import renamed_tests
from wheel_environment import install

ROOT = pathlib.Path(__file__).parent.parent.parent
TESTS = ("autograd", "device", "memory", "serialization", "stream")


@dataclass
class Vendor:
    environment: pathlib.Path  # of the wheel
    site: pathlib.Path  # of the vendor's package


@pytest.fixture(scope="module")
def foo(environment: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Vendor:
    """The package, built outside of this repository, from the headers of the wheel."""
    home = tmp_path_factory.mktemp("vendor")
    built = shutil.ignore_patterns("build", "*.egg-info")  # of an installation by hand
    shutil.copytree(ROOT / "examples" / "drivers" / "foo", home / "source", ignore=built)
    install(environment, home / "site", "--no-build-isolation", str(home / "source"))
    return Vendor(environment, home / "site")


def run(vendor: Vendor, *command: str) -> str:
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(vendor.environment),
        "PYTHONPATH": str(vendor.site),
        "FOO_AUTOLOAD": "1",
    }
    done = subprocess.run(
        [str(vendor.environment / "bin" / "python"), *command],
        capture_output=True,
        text=True,
        cwd=vendor.environment,
        env=variables,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_driver_conforms(foo: Vendor) -> None:
    library = run(foo, "-c", "import torch_foo; print(torch_foo.driver_path())").strip()
    (check,) = foo.environment.glob("lib/python*/site-packages/bin/openreg-driver-check")
    done = subprocess.run([check, library], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "0 failed" in done.stdout


def test_the_device_has_the_name_of_the_package(foo: Vendor) -> None:
    program = "import torch; print((torch.ones(3, device='foo') + 1).tolist(), torch.foo.get_device_name())"
    assert run(foo, "-c", program) == "[2.0, 2.0, 2.0] Foo 1\n"
    assert "registered as 'foo'" in run(foo, "-m", "torch_openreg", "doctor")


@pytest.mark.parametrize("name", TESTS)
def test_tests_of_the_modules(name: str, foo: Vendor, tmp_path: pathlib.Path) -> None:
    renamed_tests.copy("foo", tmp_path / "tests")
    output = run(
        foo,
        *("-m", "pytest", "-q", "-m", "not timing and not simulated", "-c", str(ROOT / "pyproject.toml")),
        *("--rootdir", str(tmp_path), "-p", "no:cacheprovider"),
        *("-o", f"pythonpath={ROOT / 'tools'} {tmp_path / 'tests' / 'support'}"),
        str(tmp_path / "tests" / f"test_{name}.py"),
    )
    passed = int(output.rpartition(" passed")[0].rpartition("\n")[2].split()[-1])
    assert passed >= 10, output
