"""Builds the driver from the headers that torch_openreg installs. Needs a C++20 compiler, and no CUDA."""

from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup

# Not imported: importing torch_openreg loads the device.
package = find_spec("torch_openreg")
if package is None or package.origin is None:
    raise SystemExit(
        "torch_openreg is not installed: install it, and build this package with --no-build-isolation"
    )
headers = Path(package.origin).parent / "include"
here = Path(__file__).parent
sources = sorted(file.name for file in here.glob("*.cpp") if not file.name.startswith("check_"))
driver = Extension(
    "torch_nv.driver",
    sources,
    include_dirs=[str(headers)],
    depends=[
        str(file.relative_to(here)) for pattern in ("*.h", "kernels/*.cu") for file in here.glob(pattern)
    ],
    extra_compile_args=["-std=c++20", "-O2", "-fvisibility=hidden"],
    libraries=["pthread", "dl"],
    language="c++",
)
setup(ext_modules=[driver])
