"""Installs packages into the environment of the wheel's tests."""

import pathlib
import subprocess
import sys


def site_of(environment: pathlib.Path) -> pathlib.Path:
    return next((environment / "lib").glob("python*")) / "site-packages"


def install(environment: pathlib.Path, target: pathlib.Path, *what: str) -> None:
    """Installs with the pip of this process, into a folder; builds see the packages of the environment."""
    site = site_of(environment)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(target)]
    variables = {"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"}
    subprocess.run([*pip, *what], check=True, cwd=environment, env=variables)
