"""``python -m torch_openreg new``: the package that it writes, names that it refuses, and updates.

tests/wheel/test_new.py builds and uses the package.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from torch_openreg import new
from torch_openreg.__main__ import main

pytest.importorskip("copier", reason="copier, which the Makefile installs, is not installed")

TOOLS = Path(sysconfig.get_path("scripts"))


@pytest.fixture(autouse=True)
def restored_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "1")  # the command changes it
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the template, that of a later version."""
    copy = shutil.copytree(new.TEMPLATE, tmp_path / "later")
    monkeypatch.setattr(new, "TEMPLATE", copy)
    return copy


def change(file: Path, old: str, text: str) -> None:
    before = file.read_text()
    assert old in before
    file.write_text(before.replace(old, text))


LONG_NAME = "a" + "_long" * 12 + "_n"


@pytest.mark.parametrize("name", ["foo", LONG_NAME])
@pytest.mark.parametrize(
    "command",
    [
        "ruff check --no-cache .",
        "ruff format --no-cache --check .",
        "clang-format --dry-run -Werror driver.c",
    ],
)
def test_formatters_accept_the_files(name: str, command: str) -> None:
    tool, *arguments = command.split()
    if not (TOOLS / tool).exists():
        pytest.skip(f"{tool}, which the Makefile installs, is not installed")
    assert main(["new", name]) == 0
    subprocess.run([TOOLS / tool, *arguments], cwd=f"torch_{name}", check=True)


@pytest.mark.parametrize("name", ["foo", LONG_NAME])
def test_the_files_are_complete(name: str) -> None:
    assert main(["new", name]) == 0
    folder = Path(f"torch_{name}")
    text = (folder / "driver.c").read_text()
    assert f'#define NAME "{name}"' in text and len(text.splitlines()) <= 400
    assert not [
        path for path in folder.rglob("*") if "{" in path.name or path.suffix in (".jinja", ".partial")
    ]
    for file in folder.rglob("*"):
        if file.is_file():
            contents = file.read_text()
            assert contents.endswith("\n") and not contents.endswith("\n\n"), file
            assert "{%" not in contents and "{{ name" not in contents, file


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "Foo",
            "'Foo', from the command line, cannot be the name of a device: use 1 to 63 lower-case letters",
        ),
        ("1foo", "beginning with a letter"),
        ("foo-bar", "letters and underscores"),
        ("foo1", "letters and underscores"),
        ("privateuseone", "torch's own name"),
        ("cuda", "'cuda' is a device type of torch: choose another name"),
        ("full", "torch.full exists already: choose another name for the device"),
        ("numpy", "torch.Tensor.numpy exists"),
        ("type", "torch.Tensor.type exists"),
        ("register_module", "torch.nn.Module.register_module exists"),
        ("", "'', from the command line"),
        ("x" * 64, "1 to 63"),
        ("xla", "'xla' is a device type of torch: choose another name"),
        ("nn", "torch.nn exists already: choose another name for the device"),
        ("openreg", "'openreg' is the simulated device"),
        ("lambda", "a keyword of Python"),
        ("foo_", "remove the last underscore"),
    ],
)
def test_names_that_are_refused(name: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "openreg":  # in a process that has not loaded it
        done = subprocess.run(
            [sys.executable, "-m", "torch_openreg", "new", name], capture_output=True, text=True
        )
        code, error = done.returncode, done.stderr
    else:
        code, error = main(["new", name]), capsys.readouterr().err
    assert code == 2 and why in error and error.count("\n") == 1
    assert not list(Path.cwd().iterdir())


def test_a_folder_that_is_not_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    assert main(["new", "foo", "mine"]) == 2
    assert "'mine' exists and is not an empty folder" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes"]
    (tmp_path / "torch_link").symlink_to("nowhere")
    assert main(["new", "link"]) == 2
    assert "'torch_link' exists and is not an empty folder" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["new", "foo", "empty"]) == 0


def test_without_copier(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "copier", None)
    assert main(["new", "foo"]) == 2
    error = capsys.readouterr().err
    assert "needs copier" in error and "pip install 'torch_openreg[new]'" in error
    assert not list(Path.cwd().iterdir())


def test_an_update_without_changes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "foo"]) == 0
    change(Path("torch_foo/driver.c"), "kDevices = 2", "kDevices = 4")
    before = {path: path.read_bytes() for path in Path("torch_foo").rglob("*") if path.is_file()}
    assert main(["new", "foo", "--update"]) == 0
    assert "torch_foo is up to date" in capsys.readouterr().out
    assert before == {path: path.read_bytes() for path in Path("torch_foo").rglob("*") if path.is_file()}


def test_an_update_keeps_changes(template: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "foo"]) == 0
    folder = Path("torch_foo")
    change(folder / "driver.c", "kDevices = 2", "kDevices = 4")
    (folder / "driver.c").chmod(0o600)
    (folder / "setup.py").unlink()
    (folder / "own.py").write_text("own")
    change(folder / ".gitignore", "build/", "build/\nown/")
    change(
        template / "driver.c.jinja", "const orDriver* orGetDriver", "/* New. */\nconst orDriver* orGetDriver"
    )
    change(template / "setup.py.jinja", "-Wextra", "-Wpedantic")
    change(template / "README.md.jinja", "# torch_", "# New: torch_")
    (template / "NEWS.jinja").write_text("{{ name }}\n")
    (template / ".gitignore.jinja").unlink()
    (template / "tests/test_driver.py.jinja").unlink()
    capsys.readouterr()
    assert main(["new", "foo", "--update"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        ".gitignore: no longer in the template; your file is kept",
        "NEWS: added",
        "README.md: updated",
        "driver.c: merged with your changes",
        "setup.py: you have deleted it; it stays so",
        "tests/test_driver.py: removed",
    ]
    driver = (folder / "driver.c").read_text()
    assert (
        "kDevices = 4" in driver
        and "/* New. */" in driver
        and (folder / "driver.c").stat().st_mode & 0o77 == 0
    )
    assert (folder / "README.md").read_text().startswith("# New: torch_foo")
    assert (folder / "NEWS").read_text() == "foo\n" and (folder / "own.py").read_text() == "own"
    assert "own/" in (folder / ".gitignore").read_text()
    assert not (folder / "setup.py").exists() and not (folder / "tests/test_driver.py").exists()
    assert main(["new", "foo", "--update"]) == 0
    assert "up to date" in capsys.readouterr().out


def test_conflicts_are_marked(template: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "foo"]) == 0
    folder = Path("torch_foo")
    change(folder / "driver.c", "kDevices = 2", "kDevices = 4")
    (folder / "NEWS").write_text("mine\n")
    change(template / "driver.c.jinja", "kDevices = 2", "kDevices = 8")
    (template / "NEWS.jinja").write_text("theirs\n")
    assert main(["new", "foo", "--update"]) == 1
    output = capsys.readouterr().out
    assert "driver.c: CONFLICT with your changes" in output and "NEWS: CONFLICT" in output
    driver = (folder / "driver.c").read_text()
    assert "kDevices = 4" in driver and "kDevices = 8" in driver and "<<<<<<< this package" in driver
    assert "mine" in (folder / "NEWS").read_text()

    assert main(["new", "foo", "--update"]) == 2  # the template has not changed since
    assert "NEWS, driver.c: resolve the conflicts of the last update first" in capsys.readouterr().err
    change(template / "driver.c.jinja", "kDevices = 8", "kDevices = 9")
    assert main(["new", "foo", "--update"]) == 2
    assert "resolve the conflicts of the last update first" in capsys.readouterr().err
    assert (folder / "driver.c").read_text() == driver


def test_updates_that_are_refused(
    tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "foo", "--update"]) == 2
    assert "'torch_foo' has no folder .template" in capsys.readouterr().err
    assert main(["new", "foo"]) == 0
    assert main(["new", "bar", "torch_foo", "--update"]) == 2
    assert "'torch_foo' is not a package of the device 'bar'" in capsys.readouterr().err
    change(template / "README.md.jinja", "# torch_", "# New: torch_")
    before = (tmp_path / "torch_foo/README.md").read_text()
    monkeypatch.setenv("PATH", "")
    assert main(["new", "foo", "--update"]) == 2
    assert "needs the program git" in capsys.readouterr().err
    assert (tmp_path / "torch_foo/README.md").read_text() == before


def test_an_update_that_cannot_be_merged_changes_nothing(
    template: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "foo"]) == 0
    folder = Path("torch_foo")
    change(template / "README.md.jinja", "# torch_", "# New: torch_")
    change(template / "setup.py.jinja", "-Wextra", "-Wpedantic")
    (folder / "setup.py").write_bytes(b"\0binary\0")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(["new", "foo", "--update"]) == 2
    assert "setup.py: git cannot merge it" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    (folder / "setup.py").unlink()
    (folder / "setup.py").mkdir()
    assert main(["new", "foo", "--update"]) == 2
    assert "setup.py is a folder here, and a file in the template" in capsys.readouterr().err
    (folder / "setup.py").rmdir()
    change(template / "tests/test_driver.py.jinja", "import sys", "import os\nimport sys")
    shutil.rmtree(folder / "tests")
    (folder / "tests").write_text("mine")
    (folder / "README.md").write_text("mine")
    assert main(["new", "foo", "--update"]) == 2
    assert "tests is a file here, and a folder in the template" in capsys.readouterr().err
    assert (folder / "README.md").read_text() == "mine"


def test_a_build_without_torch_openreg(tmp_path: Path) -> None:
    assert main(["new", "foo"]) == 0
    stub = tmp_path / "stub"
    stub.mkdir()
    (stub / "setuptools.py").write_text("Extension = setup = None")
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import runpy; runpy.run_path('setup.py')"],
        cwd="torch_foo",
        env={"PYTHONPATH": str(stub)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "torch_openreg is not installed: install it, and build with pip install --no-build-isolation"
    )
