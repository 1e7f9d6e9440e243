"""``python -m torch_openreg api-report``: what changed between two versions of torch for an out-of-tree device."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torch_openreg.api_report import collect, interpreter, run
from torch_openreg.api_report.compare import compare

ROOT = Path(__file__).parent.parent
HEADER = """
namespace c10 {
// virtual void in_a_comment() = 0;
struct TORCH_API Guard : public Base {
  virtual ~Guard() = default;
  /// Contract.
  virtual DeviceIndex exchange(DeviceIndex device, bool force = false) const = 0;
  virtual void record(
      void** event,
      const std::function<bool(Stream, int)>& filter,
      std::map<int, int> = {}) const noexcept {
    if (event) { call(); }
  }
  class Inner final {
    virtual Inner* clone() { return this; }
  };
  virtual bool last() const;
  void not_virtual(int);
};
C10_API void set_create(DeviceType type, StorageCreate create);
}
"""


def test_virtual_functions_of_a_header():
    assert collect.virtual_functions(HEADER) == {
        "Guard::exchange(DeviceIndex, bool)": "DeviceIndex exchange(DeviceIndex, bool) const = 0",
        "Guard::record(void**, const std::function<bool(Stream, int)>&, std::map<int, int>)": (
            "void record(void**, const std::function<bool(Stream, int)>&, std::map<int, int>) const noexcept"
        ),
        "Inner::clone()": "Inner* clone()",
        "Guard::last()": "bool last() const",
    }


def test_exported_functions_of_a_header():
    assert collect.exported_functions(HEADER) == {
        "set_create(DeviceType, StorageCreate)": "void set_create(DeviceType, StorageCreate)"
    }


def test_dispatch_keys_of_a_header():
    header = "enum class DispatchKey : uint16_t {\n  Undefined = 0,\n  // Old,\n  CPU, // comment\n  Last = CPU,\n};"
    assert collect.dispatch_keys(header) == ["CPU", "Last", "Undefined"]


def found(**changes):
    base = {
        "version": "1.0",
        "interfaces": {"Device guard": {"G::f(int)": "void f(int)", "G::g()": "void g()"}},
        "dispatch_keys": ["CPU"],
        "operators": {"aten::a": {"schema": "aten::a(Tensor x) -> Tensor", "meta": True}},
        "public": ["torch.accelerator.x"],
        "used": {"torch.x": True},
        "parameters": {"torch.f": "a, b"},
    }
    return base | changes


def test_equal_versions_have_no_changes():
    page = compare(found(), found(version="1.1"))
    assert "# torch 1.0 to 1.1" in page
    assert page.count("No change.") == page.count("## ")


def test_every_kind_of_change_is_reported():
    new = found(
        version="2.0",
        interfaces={"Device guard": {"G::f(int)": "bool f(int)", "G::h()": "void h() = 0"}},
        dispatch_keys=["CPU", "New"],
        operators={
            "aten::a": {"schema": "aten::a(Tensor x, int n) -> Tensor", "meta": True},
            "aten::b": {"schema": "aten::b(Tensor x) -> Tensor", "meta": False},
        },
        public=[],
        used={"torch.x": False},
        parameters={"torch.f": "a, *, b", "torch.g": "c"},
    )
    page = compare(found(), new)
    for line in (
        "- removed: `G::g()`",
        "- added, must be implemented: `G::h()`",
        "- changed: `void f(int)` is now `bool f(int)`",
        "- added: `New`",
        "- changed: `aten::a(Tensor x) -> Tensor` is now `aten::a(Tensor x, int n) -> Tensor`",
        "- added, without a Meta kernel: `aten::b(Tensor x) -> Tensor`",
        "- removed: `torch.accelerator.x`",
        "- removed: `torch.x`",
        "- `torch.f(a, b)` is now `torch.f(a, *, b)`",
    ):
        assert line in page.splitlines()


def test_parameters_of_python_functions():
    found = collect.parameters(
        ["torch.Tensor.__dlpack__", "torch.no_such_name", "torch.add", "torch.float32"]
    )
    assert list(found) == ["torch.Tensor.__dlpack__"]
    assert found["torch.Tensor.__dlpack__"].startswith("self, *, stream")


def test_names_of_torch_that_a_package_uses(tmp_path):
    (tmp_path / "a.py").write_text(
        "import torch\nfrom torch.utils import data\n"
        "def f(x):\n    return torch.ops.aten.add(x, torch._C._get_default_device())\n"
    )
    assert {"torch.utils.data", "torch.ops.aten.add", "torch._C._get_default_device"} <= collect.used_names(
        tmp_path
    )
    assert collect.exists("torch.utils.data") and not collect.exists("torch.utils.no_such_name")


def test_the_installed_torch_is_collected(tmp_path):
    import torch_openreg

    script = Path(collect.__file__)
    done = subprocess.run(
        [sys.executable, script, Path(torch_openreg.__file__).parent],
        capture_output=True,
        text=True,
        check=True,
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    result = json.loads(done.stdout)
    assert set(result["interfaces"]) == set(collect.INTERFACES)
    guard = result["interfaces"]["Device guard"]
    assert (
        guard["DeviceGuardImplInterface::exchangeDevice(Device)"] == "Device exchangeDevice(Device) const = 0"
    )
    assert all(functions for name, functions in result["interfaces"].items() if name != "Graph")
    assert "PrivateUse1" in result["dispatch_keys"] and result["operators"]["aten::add.Tensor"]["meta"]
    missing = [name for name, exists in result["used"].items() if not exists and "torch.ops." not in name]
    assert all("Graph" in name or "_augment" in name for name in missing), missing


def test_the_version_of_this_interpreter_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert interpreter(torch.__version__.partition("+")[0]) == Path(sys.executable)


def test_an_unknown_version_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LookupError, match=r"make build TORCH=9\.9\.9"):
        interpreter("9.9.9")

    class Arguments:
        old = new = "9.9.9"
        output = None

    assert run(Arguments()) == 2
    assert "torch 9.9.9 was not found" in capsys.readouterr().err
