"""Drivers that are loaded: OPENREG_DRIVER, drivers of other packages, and errors. See docs/guide/driver.md.

Each test runs in a separate interpreter, since a process has one driver.
"""

import subprocess
from functools import partial
from pathlib import Path

import pytest
from gpu import NO_GPU
from interpreter import doctor as doctor_on_this_machine
from interpreter import execute as execute_on_this_machine
from interpreter import python
from vendor import ROOT, build_driver, minimal_driver, vendor_package

# Devices that fail to load do not take the accelerator from a GPU, and settings of another name do not come from make.
doctor = partial(doctor_on_this_machine, **NO_GPU)
execute = partial(execute_on_this_machine, **NO_GPU)

WORKS = """
import torch
assert (torch.ones(3, device="openreg") + 1).tolist() == [2.0] * 3
x = torch.randn(4, 4, device="openreg", requires_grad=True)
(x @ x).sum().backward()
assert x.grad.device.type == "openreg"
stream = torch.openreg.Stream()
stream.wait_stream(torch.openreg.current_stream())
with torch.openreg.stream(stream):
    y = x.detach() * 2
event = stream.record_event()
event.synchronize()
assert torch.equal(y.cpu(), x.detach().cpu() * 2)
print(torch.openreg.get_device_name())
"""


@pytest.fixture(scope="module")
def minimal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return minimal_driver(tmp_path_factory.mktemp("driver"))


def test_a_driver_from_the_environment(minimal: Path) -> None:
    assert execute(WORKS, OPENREG_DRIVER=str(minimal)) == "minimal"
    text = doctor(0, OPENREG_DRIVER=str(minimal))
    assert f"'minimal', {minimal}; version" in text and "devices: 1" in text, text


def test_the_embedded_driver() -> None:
    assert "simulated" in execute(WORKS)
    assert "'sim', embedded in the runtime; version" in doctor(0)


def test_a_driver_of_a_package(minimal: Path, tmp_path: Path) -> None:
    path = [vendor_package(tmp_path, "foo", minimal)]
    assert execute(WORKS.replace("openreg", "foo"), path=path) == "minimal"
    assert "registered as 'foo'" in doctor(0, path=path)
    assert "simulated" in execute(WORKS, path=path, OPENREG_DRIVER="sim")


def test_two_packages_with_a_driver(minimal: Path, tmp_path: Path) -> None:
    path = [vendor_package(tmp_path / name, name, minimal) for name in ("foo", "bar")]
    output = execute(
        """
import torch
try:
    torch.ones(1, device="openreg")
except RuntimeError as error:
    print(error)
""",
        path=path,
    )
    assert "torch_bar 1.0 (bar = torch_bar:driver), torch_foo 1.0 (foo = torch_foo:driver)" in output
    assert "OPENREG_DRIVER" in output
    assert execute(WORKS, path=path, OPENREG_DRIVER=str(minimal)) == "minimal"


def test_one_of_two_packages(minimal: Path, tmp_path: Path) -> None:
    """By the name of its entry point, or by the path of its library: the device has the name of the entry point."""
    second = build_driver(ROOT / "runtime/tests/drivers/minimal.c", tmp_path / "libbar.so")
    path = [
        vendor_package(tmp_path / "a", "foo", minimal),
        vendor_package(tmp_path / "b", "bar", second),
    ]
    for chosen in ("bar", str(second), str(tmp_path / "b/../libbar.so")):
        assert execute(WORKS.replace("openreg", "bar"), path=path, OPENREG_DRIVER=chosen) == "minimal"
        report = doctor(0, path=path, OPENREG_DRIVER=chosen)
        assert "libbar.so" in report and "registered as 'bar'" in report
    check = partial(python, "-m", "torch_openreg", "driver-check", "--only", "fill", path=path)
    assert "1 passed" in check(OPENREG_DRIVER="bar").stdout
    # A child process has the same device.
    program = """
import subprocess, sys, torch
subprocess.run([sys.executable, "-c", "import torch; torch.ones(1, device='bar')"], check=True)
"""
    execute(program, path=path, OPENREG_DRIVER="bar")
    assert execute(WORKS, path=path, OPENREG_DRIVER="sim")
    report = doctor(1, path=path)
    assert "OPENREG_DRIVER=bar" in report and "OPENREG_DRIVER=foo" in report


def test_a_package_whose_driver_cannot_be_found(tmp_path: Path) -> None:
    vendor_package(tmp_path, "foo", "")
    (tmp_path / "torch_foo.py").write_text(
        "def driver():\n    raise FileNotFoundError('libfoo.so is not built')\n"
    )
    source = "import torch\ntry:\n    torch.foo.synchronize()\nexcept RuntimeError as e:\n    print(e)"
    output = execute(source, path=[tmp_path])
    assert "torch_foo 1.0 (foo = torch_foo:driver)" in output and "libfoo.so is not built" in output
    assert "libfoo.so is not built" in doctor(1, path=[tmp_path])


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("driver = 'libfoo.so'", "'libfoo.so' is not an absolute path"),
        ("driver = ''", "'' is not an absolute path"),
        ("driver = '/foo\\0.so'", "is not an absolute path"),
        ("driver = 3", "TypeError"),
    ],
)
def test_a_package_with_a_wrong_driver(module: str, why: str, tmp_path: Path) -> None:
    vendor_package(tmp_path, "foo", "")
    (tmp_path / "torch_foo.py").write_text(module)
    source = "import torch\ntry:\n    torch.foo.synchronize()\nexcept RuntimeError as e:\n    print(e)"
    output = execute(source, path=[tmp_path], PYTHONWARNINGS="error::ResourceWarning")
    assert "torch_foo 1.0 (foo = torch_foo:driver)" in output and why in output


@pytest.mark.parametrize("how", ["missing", "not a driver", "not a library"])
def test_import_torch_survives_a_driver_that_cannot_be_loaded(how: str, tmp_path: Path) -> None:
    library = tmp_path / "libfoo.so"
    if how == "not a driver":
        subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", library], check=True)
    elif how == "not a library":
        library.write_text("text" * 100)
    output = execute(
        """
import torch
torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
for use in (lambda: torch.ones(1, device="openreg"), torch.openreg.init):
    try:
        use()
    except RuntimeError as error:
        print(error)
    else:
        raise AssertionError("no error")
""",
        OPENREG_DRIVER=str(library),
    )
    expected = {
        "missing": "No such file or directory; check the path",
        "not a driver": "does not export 'orGetDriver'",
        "not a library": "it has no ELF header",
    }[how]
    assert output.count(str(library)) >= 2 and output.count(expected) >= 2, output
    report = doctor(1, OPENREG_DRIVER=str(library))
    findings, _, remedies = report.partition("What to do:")
    assert str(library) in findings and expected in findings and "reinstall the driver" in remedies


FAILS = """
import torch
try:
    torch.ones(1, device="foo")
except RuntimeError as error:
    print(error)
"""


def changed_driver(folder: Path, old: str, new: str) -> Path:
    """The minimal driver with another text in its source."""
    source = (ROOT / "runtime/tests/drivers/minimal.c").read_text()
    assert old in source
    (folder / "changed.c").write_text(source.replace(old, new))
    return build_driver(folder / "changed.c", folder / "libchanged.so")


def test_remedies_for_a_registered_driver(tmp_path: Path) -> None:
    """Those of OPENREG_DRIVER and of torch_openreg do not help."""
    failing = changed_driver(
        tmp_path,
        "static orError_t init(const orHost* given) {",
        'static orError_t init(const orHost* given) { given->report("no firmware \\xff"); return orErrorSystem;',
    )
    for library, why in ((failing, "failed in init: no firmware ?"), (tmp_path / "no.so", "No such file")):
        path = [vendor_package(tmp_path / library.stem, "foo", library)]
        output = execute(FAILS, path=path)
        assert why in output and str(library) in output
        report = doctor(1, path=path)
        findings, _, remedies = report.partition("What to do:")
        assert why in findings
        assert "torch_foo 1.0" in remedies and "OPENREG_DRIVER=sim" in remedies
        assert "unset OPENREG_DRIVER" not in remedies and "reinstall torch_openreg" not in remedies
    assert "(from torch_foo 1.0 (foo = torch_foo:driver)): No such file" in output


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    library = changed_driver(tmp_path, '"minimal"', '"mini\\xffmal"')
    program = "import torch; torch.ones(1, device='openreg'); print(torch.openreg.get_device_name())"
    assert execute(program, OPENREG_DRIVER=str(library)) == "mini?mal"
    assert "'mini?mal'" in doctor(0, OPENREG_DRIVER=str(library))


def test_more_devices_than_supported(tmp_path: Path) -> None:
    library = changed_driver(tmp_path, "*count = 1", "*count = 100")
    path = [vendor_package(tmp_path, "foo", library)]
    message = "reports 100 devices; the supported range is 0 to 64"
    assert message in execute(FAILS.replace('"foo"', '"foo:70"'), path=path)
    assert message in doctor(1, path=path)
    check = python("-m", "torch_openreg", "driver-check", path=path, code=2)
    assert "device_count is 100; the supported range is 1 to 64" in check.stdout


@pytest.mark.parametrize(
    ("entry", "parameters", "use", "call"),
    [
        ("device_open", "int device", "torch.ones(1, device='openreg')", "orMalloc"),
        (
            "memory_alloc",
            "int device, size_t size, void** ptr",
            "torch.ones(1, device='openreg')",
            "orMalloc",
        ),
        ("stream_query", "orDriverStream* stream", "torch.openreg.Stream().query()", "orStreamQuery"),
        (
            "event_query",
            "orDriverEvent* event",
            "torch.openreg.current_stream().record_event().query()",
            "orEventQuery",
        ),
    ],
)
def test_errors_name_the_call_and_the_code(
    entry: str, parameters: str, use: str, call: str, tmp_path: Path
) -> None:
    """A code that this runtime does not know keeps its number."""
    source = (ROOT / "runtime/tests/drivers/minimal.c").read_text()
    failing = f"static orError_t failing({parameters}) {{ return (orError_t)4711; }}\n"
    head, table, tail = source.partition("static const orDriver table")
    (tmp_path / "failing.c").write_text(
        head + failing + table + tail.replace(f".{entry} = {entry},", f".{entry} = failing,")
    )
    library = build_driver(tmp_path / "failing.c", tmp_path / "libfailing.so")
    program = f"import torch\ntry:\n    {use}\nexcept torch.AcceleratorError as error:\n    print(error)"
    output = execute(program, OPENREG_DRIVER=str(library))
    assert f"error code 4711 of the driver: unrecognized error code (orErrorUnknown from {call})" in output


def test_the_driver_check_of_the_package(minimal: Path, tmp_path: Path) -> None:
    check = partial(python, "-m", "torch_openreg", "driver-check")
    assert ", 0 failed" in check(path=[vendor_package(tmp_path, "foo", minimal)]).stdout
    only = check("--only", "fill", "--timeout", "9", OPENREG_DRIVER=str(minimal))
    assert "driver 'minimal'" in only.stdout and "1 passed, 0 skipped, 0 failed" in only.stdout
    assert "driver 'sim'" in check("--only", "fill", OPENREG_DRIVER="sim").stdout
    assert "driver 'minimal'" in check("--only", "fill", str(minimal)).stdout
    assert "stream-order " in check("--list").stdout
    assert "no installed package registers a driver" in check(code=2).stderr
    assert "cannot open the driver" in check("/nonexistent/libfoo.so", code=2).stdout


def test_peer_access_is_that_of_the_driver(minimal: Path) -> None:
    program = "import torch; print(torch.openreg.can_device_access_peer(0, 0), torch.openreg.device_count())"
    assert execute(program, OPENREG_DRIVER=str(minimal)) == "False 1"
    program = "import torch; print(torch.openreg.can_device_access_peer(0, 1))"
    assert execute(program) == "True"
    source = (ROOT / "runtime/tests/drivers/minimal.c").read_text()
    two = minimal.with_name("two.c")
    two.write_text(source.replace("*count = 1", "*count = 2"))
    library = build_driver(two, minimal.with_name("libtwo.so"))
    assert execute(program, OPENREG_DRIVER=str(library)) == "False"
