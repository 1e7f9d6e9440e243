"""Configuration errors of CMake. A small project includes the same file as ours, so that a test takes a second."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
include({ROOT}/cmake/shared_libstdcxx.cmake)
"""
CMAKE = shutil.which("cmake", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))

pytestmark = pytest.mark.skipif(CMAKE is None, reason="cmake is not installed")


def configure(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    (folder / "CMakeLists.txt").write_text(PROJECT)
    kept = {name: value for name, value in os.environ.items() if name not in ("CXXFLAGS", "LDFLAGS", "CXX")}
    done = subprocess.run(
        [CMAKE, "-S", folder, "-B", folder / "build", *arguments],
        capture_output=True,
        text=True,
        env=kept | variables,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def wrapper(folder: Path) -> str:
    """A compiler that always links libstdc++ statically."""
    path = folder / "wrapped-c++"
    path.write_text('#!/bin/sh\nexec c++ "$@" -static-libstdc++\n')
    path.chmod(0o755)
    return str(path)


STATIC = {
    "LDFLAGS": lambda folder: {"LDFLAGS": "-static-libstdc++"},
    "CXXFLAGS": lambda folder: {"CXXFLAGS": "-O2 -static-libstdc++"},
    "compiler": lambda folder: {"CXX": wrapper(folder)},
}


@pytest.mark.parametrize("how", STATIC)
def test_a_static_libstdcxx_is_rejected(how: str, tmp_path: Path) -> None:
    variables = STATIC[how](tmp_path)
    code, output = configure(tmp_path, **variables)
    assert code != 0
    for text in ("does not link shared libraries with the shared libstdc++", "CXX=/usr/bin/g++"):
        assert text in output, output
    assert variables.get("CXX", "-static-libstdc++") in output


def test_shared_libstdcxx_is_accepted_and_changed_flags_are_checked(tmp_path: Path) -> None:
    code, output = configure(tmp_path, LDFLAGS="-Wl,--as-needed")
    assert code == 0, output
    code, output = configure(tmp_path, "-DCMAKE_SHARED_LINKER_FLAGS=-static-libstdc++")
    assert code != 0 and "shared libstdc++" in output


def test_project_includes_the_libstdcxx_check() -> None:
    assert "include(cmake/shared_libstdcxx.cmake)" in (ROOT / "CMakeLists.txt").read_text()


def test_build_without_the_host_engine_links_the_fallback(tmp_path: Path) -> None:
    """Configures the project. The package contains the same libraries beside those with the engine."""
    binaries = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [CMAKE, "-S", ROOT, "-B", tmp_path, "-G", "Ninja", "-DOPENREG_HOST_ENGINE=OFF"],
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": binaries, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rules = (tmp_path / "build.ninja").read_text()
    (link,) = re.findall(r"^build csrc/(?:\w+/)?libtorch_openreg\.so: (.*)", rules, re.MULTILINE)
    assert "operators/cpu_fallback.cpp.o" in link and "host_engine" not in link
    (module,) = re.findall(r"^build python/torch_openreg/bindings/(?:\w+/)?_C\S*: (.*)", rules, re.MULTILINE)
    assert "cpu_fallback.cpp.o" in module and "host_engine.cpp.o" not in module
