"""A vendor's driver and package: a C file built from the installed headers, and a distribution that registers it."""

import subprocess
import textwrap
from pathlib import Path

from interpreter import installed

ROOT = Path(__file__).resolve().parents[2]


def minimal_driver(folder: Path) -> Path:
    """A driver in one C file."""
    return build_driver(ROOT / "runtime/tests/drivers/minimal.c", folder / "libminimal.so")


def build_driver(source: Path, library: Path) -> Path:
    """Builds a driver from the installed headers alone."""
    include = installed() / "torch_openreg/include"
    flags = ["-shared", "-fPIC", "-O2", "-std=c17", "-I", include]
    subprocess.run(["cc", *flags, source, "-o", library], check=True)
    return library


def vendor_package(target: Path, name: str, path: object) -> Path:
    """Writes a distribution that registers a driver. Returns the folder, for the path."""
    info = target / f"torch_{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch_{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[torch_openreg.drivers]\n{name} = torch_{name}:driver\n")
    (target / f"torch_{name}.py").write_text(
        textwrap.dedent(f"""
            def driver():
                return {str(path)!r}
        """)
    )
    return target
