"""Builds the driver from the headers that torch_openreg installs."""

from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup

# Not imported: importing torch_openreg loads the device.
headers = Path(find_spec("torch_openreg").origin).parent / "include"
flags = ["-std=c17", "-fvisibility=hidden"]
driver = Extension(
    "torch_foo.driver",
    ["foo.c"],
    include_dirs=[str(headers)],
    extra_compile_args=flags,
    libraries=["pthread"],
)
setup(ext_modules=[driver])
