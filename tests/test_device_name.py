"""The name of the device is data of the process: from a vendor's package, or from OPENREG_DEVICE_NAME.

`make test-name` runs the tests of the modules under another name. Each test here runs in a separate interpreter.
"""

from functools import partial
from pathlib import Path

import pytest
from gpu import NO_GPU
from interpreter import doctor as doctor_on_this_machine
from interpreter import execute as execute_on_this_machine
from vendor import minimal_driver, vendor_package

# Devices that fail to load do not take the accelerator from a GPU, and settings of another name do not come from make.
doctor = partial(doctor_on_this_machine, **NO_GPU)
execute = partial(execute_on_this_machine, **NO_GPU)

USES = """
import io, os, sys, warnings
import torch

assert torch.foo is sys.modules["torch.foo"] and not hasattr(torch, "openreg")
assert torch.accelerator.current_accelerator().type == "foo"
assert (torch.ones(3, device="foo") + 1).tolist() == [2.0] * 3

x = torch.ones(3).foo()
assert x.is_foo and x.device == torch.device("foo", 0) and x.type() == "torch.foo.FloatTensor"
assert isinstance(x, torch.foo.FloatTensor)
assert repr(torch.foo.current_stream()).startswith("torch.foo.Stream(device=foo:0")
model = torch.nn.Linear(3, 1).foo()
model(x).sum().backward()
assert model.weight.grad.is_foo

file = io.BytesIO()
torch.save(model.state_dict(), file)
file.seek(0)
assert torch.load(file)["weight"].device.type == "foo"
file.seek(0)
assert torch.load(file, map_location="cpu")["weight"].device.type == "cpu"

with torch.autocast("foo", dtype=torch.bfloat16):
    assert model(x).dtype == torch.bfloat16
generator = torch.Generator("foo").manual_seed(1)
assert generator.device.type == "foo" and torch.rand(2, device="foo", generator=generator).is_foo


def message(function):
    try:
        function()
    except Exception as error:
        return str(error)
    raise AssertionError("no error")


assert "foo out of memory" in message(lambda: torch.empty(1 << 50, device="foo"))
assert "Expected a foo device" in message(lambda: torch.foo.device("cpu"))
assert "openreg" not in message(lambda: torch.foo.set_device(100)).lower().replace("openreg_device_count", "")
assert "openreg" in message(lambda: torch.ones(1, device="openreg"))  # no such device type

if pid := os.fork():
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
else:
    ok = "Cannot re-initialize foo in forked subprocess" in message(lambda: torch.ones(1, device="foo"))
    os._exit(0 if ok else 1)
"""


@pytest.fixture(scope="module")
def minimal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return minimal_driver(tmp_path_factory.mktemp("driver"))


def test_the_name_of_a_vendors_package(minimal: Path, tmp_path: Path) -> None:
    path = [vendor_package(tmp_path, "foo", minimal)]
    execute(USES, path=path)
    assert "held by 'foo'" in doctor(0, path=path)


def test_the_name_from_the_environment() -> None:
    execute(USES, OPENREG_DEVICE_NAME="foo")
    assert "held by 'foo'" in doctor(0, OPENREG_DEVICE_NAME="foo")


def test_the_variable_has_precedence_over_a_package(minimal: Path, tmp_path: Path) -> None:
    path = [vendor_package(tmp_path, "bar", minimal)]
    execute(USES, path=path, OPENREG_DEVICE_NAME="foo")


def test_settings_begin_with_the_name() -> None:
    program = """
import torch
torch.ones(1, device="foo")
print(torch.foo.get_schedule().name, torch.foo.memory_reserved())
"""
    variables = {"OPENREG_DEVICE_NAME": "foo", "OPENREG_SCHEDULE": "adversarial"}
    assert execute(program, **variables).split()[0] == "async"
    variables["FOO_SCHEDULE"] = "blocking"
    assert execute(program, **variables).split()[0] == "blocking"
    program = """
import torch
try:
    torch.ones(1, device="foo")
except ValueError as error:
    print(error)
"""
    assert "FOO_ALLOC_CONF" in execute(program, OPENREG_DEVICE_NAME="foo", FOO_ALLOC_CONF="speed:max")


@pytest.mark.parametrize(
    "name", ["Foo", "foo bar", "1foo", "foo1", "fo\N{LATIN SMALL LETTER O WITH DIAERESIS}", "x" * 64]
)
def test_an_invalid_name(name: str) -> None:
    program = (
        "import torch\ntry:\n    torch.openreg.synchronize()\nexcept RuntimeError as error:\n    print(error)"
    )
    output = execute(program, OPENREG_DEVICE_NAME=name)
    assert f"'{name}', from OPENREG_DEVICE_NAME, cannot be the name of a device" in output
    assert "lower-case letters" in output


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cuda", "'cuda' is a device type of torch"),
        ("nn", "already set"),
        ("xla", "a device type of torch"),
        ("privateuseone", "torch's own name"),
        ("to", "torch.Tensor.to exists"),
        ("grad", "torch.Tensor.grad exists"),
        ("children", "torch.nn.Module.children exists"),
        ("leaf", "torch.Tensor.is_leaf exists"),
    ],
)
def test_a_name_that_torch_uses(name: str, why: str) -> None:
    program = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
print(caught[0].message)
torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
"""
    output = execute(program, OPENREG_DEVICE_NAME=name)
    assert why in output and "choose another name" in output


def test_two_names_for_one_process() -> None:
    """PrivateUse1 has one name; a second device is refused."""
    program = """
import torch
torch.utils.rename_privateuse1_backend("bar")
import torch_openreg
try:
    torch.foo.synchronize()
except RuntimeError as error:
    print(error)
"""
    output = execute(program, OPENREG_DEVICE_NAME="foo", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert "PrivateUse1" in output and "is in use by the backend 'bar'" in output


def test_profiles_and_tables_have_the_name() -> None:
    execute(
        """
import torch
from torch.profiler import ProfilerActivity, profile

x = torch.ones(8, device="foo")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as record:
    x + 1
    torch.foo.synchronize()
table = record.key_averages().table()
assert "FOO" in table and "OPENREG" not in table, table
assert " PyTorch foo memory summary" in torch.foo.memory_summary()
""",
        OPENREG_DEVICE_NAME="foo",
    )


def test_compiled_functions() -> None:
    execute(
        """
import torch

compiled = torch.compile(lambda x: (x.sin() + 1).sum())
x = torch.arange(8.0, device="foo")
torch.testing.assert_close(compiled(x).cpu(), (x.cpu().sin() + 1).sum())
""",
        OPENREG_DEVICE_NAME="foo",
    )


def test_the_doctor_explains_variables_without_an_effect(minimal: Path, tmp_path: Path) -> None:
    """Not an error: a driver may read variables of its own."""
    variables = {
        "FOO_DEVICE_COUNT": "3",
        "FOO_SCHEDULE": "async",
        "FOO_TRACE": "1",
        "OPENREG_MEMORY": "1G",
        "OPENREG_SEED": "5",
    }
    report = doctor(0, path=[vendor_package(tmp_path, "foo", minimal)], **variables)
    assert (
        "FOO_DEVICE_COUNT=3 (not a setting; that of the simulated device is OPENREG_DEVICE_COUNT)" in report
    )
    assert "FOO_SCHEDULE=async\n" in report
    assert "FOO_TRACE=1 (not a setting of torch_openreg)" in report
    assert "OPENREG_MEMORY=1G (only the simulated device reads it)" in report
    assert "OPENREG_SEED=5 (no effect: the device is 'foo', which reads FOO_SEED)" in report
    report = doctor(0, OPENREG_MEMORY="1G", OPENREG_SCHEDULE="blocking")
    assert "OPENREG_MEMORY=1G\n" in report and "OPENREG_SCHEDULE=blocking\n" in report
