"""Ways to break an installation of the package, and the text that each error contains."""

import subprocess
from collections.abc import Callable
from pathlib import Path


def _missing(package: Path, pattern: str) -> None:
    (found,) = package.glob(pattern)
    found.unlink()


def _overwritten(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def _stale(package: Path) -> None:
    """A runtime library without the symbols that the integration needs, as from an older build."""
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", package / "lib/libopenreg.so"], check=True)


def other_torch(package: Path) -> None:
    text = (package / "_build.py").read_text()
    version = text.split('TORCH_VERSION = "')[1].split('"')[0]
    (package / "_build.py").write_text(text.replace(version, "2.4.1"))


def _cut_short(package: Path) -> None:
    library = package / "lib/libtorch_openreg.so"
    _overwritten(library, library.read_bytes()[: library.stat().st_size // 2])


# Function that breaks the package, and text that the error and the doctor's report contain.
BROKEN: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "no runtime": (lambda p: _missing(p, "lib/libopenreg.so"), ["libopenreg.so", "No such file"]),
    "no integration": (
        lambda p: _missing(p, "lib/libtorch_openreg.so"),
        ["libtorch_openreg.so", "No such file"],
    ),
    "no bindings": (lambda p: _missing(p, "_C*.so"), ["_C", "No such file"]),
    "corrupt": (lambda p: _overwritten(p / "lib/libopenreg.so", b"\0" * 4096), ["invalid ELF header"]),
    "cut short": (_cut_short, ["libtorch_openreg.so", "truncated"]),
    "stale": (_stale, ["undefined symbol"]),
    "other torch": (other_torch, ["2.4.1", "2.4", "this is torch"]),
    "broken module": (lambda p: (p / "openreg/__init__.py").write_text("1/0"), ["ZeroDivisionError"]),
}
