"""Installs packages into the environments of the wheel's tests."""

import pathlib
import subprocess
import sys
import sysconfig
from importlib import metadata

ROOT = pathlib.Path(__file__).parent.parent.parent
SITE = pathlib.Path(sysconfig.get_paths()["purelib"])


def site_of(environment: pathlib.Path) -> pathlib.Path:
    return next((environment / "lib").glob("python*")) / "site-packages"


def built_wheel() -> pathlib.Path:
    """The newest wheel for the installed torch."""
    minor = ".".join(metadata.version("torch").split(".")[:2])
    found = (ROOT / "dist").glob(f"torch_openreg-*+torch{minor}-*.whl")
    wheels = sorted(found, key=lambda path: path.stat().st_mtime)
    assert wheels, f"no wheel for torch {minor} in dist/: run `make wheel`"
    return wheels[-1]


def link_packages(folder: pathlib.Path) -> None:
    """Links torch and the other packages of this environment into the folder, instead of downloading them."""
    for entry in SITE.iterdir():
        if not entry.name.startswith(("torch_openreg", "pip", "_torch_openreg")) and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)


def install(environment: pathlib.Path, target: pathlib.Path, *what: str) -> None:
    """Installs with the pip of this process, into a folder; builds see the packages of the environment."""
    site = site_of(environment)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(target)]
    variables = {"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"}
    subprocess.run([*pip, *what], check=True, cwd=environment, env=variables)
