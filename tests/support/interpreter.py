"""Runs code in a separate interpreter, for tests of the import of torch.

The interpreter starts outside the repository, and without the environment variables that
control how the device is loaded.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import torch

from torch_openreg import _driver, _loader

TIMEOUT = 120
CHECK_RACES = "OPENREG_CHECK_RACES"
# make test-name, make test-no-engine, make test-races
KEPT = (_driver.NAME_VARIABLE, _loader.ENGINE, CHECK_RACES)

# Checks that the device is available under all of its names and runs a kernel.
WORKS = """
import sys, torch, torch_openreg
assert torch.openreg is torch_openreg.openreg is sys.modules["torch.openreg"] is torch_openreg._autoload()
assert torch.openreg.is_available() and torch.openreg.device_count() > 0
assert torch.accelerator.current_accelerator().type == "openreg"
assert torch.tensor([1.0, 2.0]).to("openreg").to(torch.int32).tolist() == [1, 2]  # a kernel in every build
"""


def environment(path: list[Path] | None = None, **variables: str) -> dict[str, str]:
    """This process's environment with `path` first on PYTHONPATH, without most variables of the device."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if k in KEPT or (k != "TORCH_DEVICE_BACKEND_AUTOLOAD" and "OPENREG" not in k)
    }
    if _loader.find_gpu(torch) is not None:  # load the device although there is a GPU
        kept[_loader.AUTOLOAD] = "1"
    inherited = [kept["PYTHONPATH"]] if kept.get("PYTHONPATH") else []
    kept["PYTHONPATH"] = os.pathsep.join([*map(str, path or []), *inherited])
    return kept | variables


def python(
    *arguments: str,
    path: list[Path] | None = None,
    code: int = 0,
    cwd: Path | None = None,
    stdin: str | None = None,
    timeout: int = TIMEOUT,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Runs the interpreter with these arguments and checks that its exit code is `code`."""
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            input=stdin,
            timeout=timeout,
            cwd=cwd or elsewhere,
            env=environment(path, **variables),
        )
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert CHECK_RACES in variables or "openreg: race: " not in done.stderr, done.stderr
    return done


def execute(source: str, *arguments: str, **options: object) -> str:
    """Runs the source, whose assertions are the test, and returns its standard output, stripped."""
    return python("-c", textwrap.dedent(source), *arguments, **options).stdout.strip()


_FORKER = """
import json, os, signal, sys, tempfile
preamble, programs = json.load(sys.stdin)
exec(preamble)
ended = {}
for name, program in programs.items():
    with tempfile.TemporaryFile("w+") as output:
        if (child := os.fork()) == 0:
            os.dup2(output.fileno(), 1), os.dup2(output.fileno(), 2)
            signal.alarm(60)
            try:
                exec(compile(program, name, "exec"), globals())
            except BaseException:
                import traceback
                traceback.print_exc()
                os._exit(1)
            sys.stdout.flush()
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        ended[name] = [code, output.read()]
print(json.dumps(ended))
"""


def execute_each(preamble: str, programs: dict[str, str]) -> dict[str, tuple[int, str]]:
    """Runs each program in a separate process, so that one may crash. Returns exit codes and output.

    The processes are forked from one interpreter that ran the preamble: imports, without use of the device.
    """
    done = python("-c", _FORKER, stdin=json.dumps([preamble, programs]), timeout=60 * len(programs))
    return {name: (code, output) for name, (code, output) in json.loads(done.stdout).items()}


def forked_child_error(then: str = "") -> str:
    """The error of a child that was forked after the device was used. Runs `then` in the parent afterwards."""
    return execute(
        """
import os, torch
torch.ones(2, device="openreg")
child = os.fork()
if child == 0:
    try:
        torch.ones(2, device="openreg")
    except RuntimeError as error:
        print(error, flush=True)
        os._exit(0)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
        + textwrap.dedent(then)
    )


def doctor(code: int, *arguments: str, **options: object) -> str:
    """Runs the doctor, checks its exit code and returns its output."""
    return python("-m", "torch_openreg", "doctor", *arguments, code=code, **options).stdout


@functools.cache
def installed() -> Path:
    """The folder where the package under test is installed."""
    found = execute("import importlib.metadata as m; print(m.distribution('torch_openreg').locate_file(''))")
    return Path(found)


def copy_of_installed(target: Path) -> Path:
    """Copies the package and its entry point, to break the copy and put it first on the path. Returns the copy."""
    for source in installed().glob("torch_openreg*"):
        shutil.copytree(source, target / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return target / "torch_openreg"


def backend(target: Path, name: str, source: str) -> Path:
    """Writes a distribution whose `torch.backends` entry point calls `autoload` of the source. Returns `target`."""
    info = target / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[torch.backends]\n{name} = {name}:autoload\n")
    (target / f"{name}.py").write_text(textwrap.dedent(source))
    return target
