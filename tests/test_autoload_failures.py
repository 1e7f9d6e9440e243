"""Autoload: `import torch` works when the device cannot be loaded, and a use of the device raises the reason.

Each test runs in a separate interpreter. See docs/guide/autoload.md.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest
from broken_installs import BROKEN, other_torch
from gpu import NO_GPU
from interpreter import WORKS, backend, copy_of_installed, doctor, execute, python

ROOT = Path(__file__).parent.parent

# Checks that the device is unavailable, with one warning, and that torch works.
UNAVAILABLE = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
    import torch_openreg, torch_openreg.openreg
    torch_openreg._autoload()
ours = [w for w in caught if issubclass(w.category, torch_openreg.DeviceUnavailableWarning)]
assert len(ours) == 1 and issubclass(ours[0].category, UserWarning), caught
assert ours[0].filename == "<string>", ours[0]
module = torch_openreg.openreg
assert module is torch_openreg._autoload()
assert not module.is_available() and not module.is_initialized() and module.device_count() == 0

def expect_error(use):
    try:
        use()
    except RuntimeError as error:
        assert isinstance(error, torch_openreg.DeviceUnavailableError), repr(error)
        assert "To fix it: " in str(error)
        return error
    raise AssertionError("no error")

expect_error(lambda: module.synchronize())
expect_error(lambda: module.current_device())
assert not hasattr(module, "memory_stats")

# torch still works
torch.manual_seed(0)
layer = torch.nn.Linear(2, 2)
layer(torch.ones(1, 2)).sum().backward()
torch.optim.SGD(layer.parameters()).step()
"""

# Checks that torch has the module, and that uses of the device by name raise the reason. Not with a GPU, which stays
# the accelerator; see tests/test_autoload.py.
REGISTERED = """
assert torch.openreg is module
assert torch.get_device_module() in (torch.cpu, module)
assert not torch.accelerator.is_available() and torch.accelerator.device_count() == 0
for use in (
    lambda: torch.empty(1, device="openreg"),
    lambda: torch.ones(1).to("openreg:0"),
    lambda: torch.ones(1).openreg(),
    lambda: torch.nn.Linear(1, 1).openreg(),
    lambda: torch.tensor([1], device="openreg"),
    lambda: torch.autocast("openreg"),
):
    error = expect_error(use)
print(error, "|", repr(error.__cause__), "|", ours[0].message)
"""


@pytest.mark.parametrize("state", BROKEN)
def test_a_broken_installation_does_not_break_torch(state: str, tmp_path: Path) -> None:
    break_it, expected = BROKEN[state]
    break_it(copy_of_installed(tmp_path))
    output = execute(UNAVAILABLE + REGISTERED, path=[tmp_path], **NO_GPU)
    error, cause, warning = output.split(" | ")
    for text in (error, warning):
        assert all(word in text for word in expected), text
    assert "doctor" in warning
    assert (cause == "None") == (state in ("cut short", "other torch"))


def test_a_source_tree_first_on_the_path(tmp_path: Path) -> None:
    """Python started in the repository imports the installed package. An unbuilt source tree is reported as such."""
    execute(WORKS, cwd=ROOT)
    python("-m", "torch_openreg", "doctor", cwd=ROOT)

    copied, packages = copy_of_installed(tmp_path / "tree"), tmp_path / "packages"
    (copied / "_build.py").unlink()
    packages.mkdir()
    for entry in Path(find_spec("torch").origin).parent.parent.iterdir():
        if not entry.name.startswith("torch_openreg"):
            (packages / entry.name).symlink_to(entry)
    source = UNAVAILABLE + REGISTERED
    assert "source tree" in python("-S", "-c", source, path=[copied.parent, packages], **NO_GPU).stdout


def test_another_patch_release_of_torch_is_accepted(tmp_path: Path) -> None:
    package = copy_of_installed(tmp_path)
    text = (package / "_build.py").read_text()
    (package / "_build.py").write_text(
        text + '\nTORCH_VERSION = ".".join(TORCH_VERSION.split(".")[:2]) + ".99"\n'
    )
    execute(WORKS, path=[tmp_path])


def test_warnings_as_errors_do_not_break_torch(tmp_path: Path) -> None:
    other_torch(copy_of_installed(tmp_path))
    done = python(
        "-W", "error", "-c", "import torch; assert not torch.openreg.is_available()", path=[tmp_path]
    )
    assert done.stderr.count("2.4.1") == 1


OTHER_USERS = {
    "name": 'torch.utils.rename_privateuse1_backend("other")',
    "python backend": "torch.utils.backend_registration._setup_privateuseone_for_python_backend()",
    "hooks": """
class Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self): return False
    def is_built(self): return True
    def has_primary_context(self, index): return False
torch._C._acc.register_python_privateuseone_hook(hooks := Hooks())
""",
    "kernels": """
library = torch.library.Library("aten", "IMPL")
library.impl("empty.memory_format", lambda *a, **k: None, "PrivateUse1")
""",
}


@pytest.mark.parametrize("how", OTHER_USERS)
def test_privateuse1_already_in_use(how: str) -> None:
    output = execute(
        f"import torch\n{OTHER_USERS[how]}\nholder = torch._C._get_privateuse1_backend_name()\n"
        + UNAVAILABLE
        + """
assert torch.openreg is module
assert torch._C._get_privateuse1_backend_name() == holder
assert not hasattr(torch.Tensor, "openreg")
print(ours[0].message)
""",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert "PrivateUse1" in output and ("'other'" in output) == (how == "name")


def test_privateuse1_in_use_by_a_backend_that_torch_loads_first(tmp_path: Path) -> None:
    backend(
        tmp_path,
        "other",
        "import torch\ndef autoload():\n    torch.utils.rename_privateuse1_backend('other')\n",
    )
    execute(
        UNAVAILABLE + "assert torch.openreg is module and torch.device('other').type == 'other'",
        path=[tmp_path],
    )
    report = doctor(1, path=[tmp_path])
    assert "held by another backend, 'other'" in report and "other = other:autoload, from other 1.0" in report


def test_existing_attributes_are_not_replaced() -> None:
    output = execute(
        "import torch\ntorch.openreg = mine = object()\n"
        + UNAVAILABLE
        + """
assert torch.openreg is mine
assert torch._C._get_privateuse1_backend_name() == "privateuseone"
print(ours[0].message)
""",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert "torch.openreg" in output and "object object" in output
    output = execute(
        "import torch\ntorch.Tensor.openreg = mine = object()\n"
        + UNAVAILABLE
        + """
assert torch.Tensor.openreg is mine
print(ours[0].message)
""",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert "torch.Tensor.openreg exists" in output


def test_a_program_that_renames_the_backend() -> None:
    """Older programs rename the backend before they import the package."""
    execute(
        "import torch\ntorch.utils.rename_privateuse1_backend('openreg')\n" + WORKS,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )


@pytest.mark.parametrize("order", ["before us", "after us"])
def test_another_backend_fails(order: str, tmp_path: Path) -> None:
    """torch stops its import at the first backend that raises. Our backend adds no error and hides none."""
    bad = backend(tmp_path / "bad", "bad", "def autoload():\n    raise ValueError('no driver')\n")
    good = tmp_path / "good"
    copy_of_installed(good)
    path = [bad, good] if order == "before us" else [good, bad]
    execute(
        """
        import warnings
        warnings.simplefilter("error")
        try:
            import torch
        except RuntimeError as error:
            assert "backend extension: bad" in str(error) and "no driver" in str(error.__cause__)
        else:
            raise AssertionError("torch did not raise")
        """,
        path=path,
    )
    done = python("-c", "import torch_openreg; print(torch_openreg._autoload().is_available())", path=path)
    assert done.stdout.strip() == "False" and done.stderr.count("DeviceUnavailableWarning") == 1
    assert "backend extension: bad" in done.stderr and "no driver" in done.stderr
    execute("import torch_openreg\n" + WORKS, path=path, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
