"""Loads the device into torch, once per process, and lets no failure reach ``import torch``.

Note [Imports and the lock]
torch imports this package at the end of its own import, and this package imports torch. Python watches its
locks on modules and breaks a circle of threads that wait for each other's imports; it cannot see our lock. So
``import torch`` comes before the lock is taken: then no thread that holds the lock waits for a module that is
being imported by a thread that waits for the lock.
"""

import contextlib
import importlib
import importlib.machinery
import os
import re
import struct
import sys
import threading
import warnings
from types import ModuleType
from typing import Any

from torch_openreg import _gpu, _unavailable
from torch_openreg._unavailable import DeviceUnavailableWarning, Obstacle

try:
    from torch_openreg._build import DEVICE_NAME, TORCH_VERSION, VERSION
except ImportError:
    DEVICE_NAME, TORCH_VERSION, VERSION = __package__.removeprefix("torch_"), "", ""

PACKAGE = __package__
PACKAGE_DIR = os.path.dirname(os.path.abspath(__file__))
AUTOLOAD = f"{DEVICE_NAME.upper()}_AUTOLOAD"
FREE_NAME = "privateuseone"  # the name of PrivateUse1 while no backend has named it
REINSTALL = (
    f"install {PACKAGE} again: pip install --force-reinstall --no-deps --no-build-isolation, "
    "and its name or source folder"
)

_lock = threading.RLock()  # guards _loaded and what loading does to torch; see Note [Imports and the lock]
_loaded: ModuleType | None = None
_warned = False


def load() -> ModuleType:
    """Returns the device's module; when the device cannot be loaded, its stand-in. Does not raise."""
    try:
        import torch
    except Exception as error:
        obstacle = Obstacle(
            f"torch could not be imported ({one_line(error)})",
            "repair torch first; if the message names another backend, uninstall that, or set "
            f"TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import {PACKAGE}",
        )
        obstacle.__cause__ = error
        return _stand_in(obstacle)  # not remembered: torch may be importable later

    global _loaded
    with _lock:
        if _loaded is None:
            try:
                _loaded = _integrate(torch)
            except Exception as error:
                _loaded = _attach_stand_in(torch, _as_obstacle(error))
        return _loaded


def leaves_accelerator() -> bool:
    """Whether ``import torch`` shall not load the device. A variable decides; without it, a GPU does.

    A device on PrivateUse1 is torch's accelerator, before a GPU. A program that was written for the accelerator would
    run on a simulated one because that happens to be installed.
    """
    wish = os.environ.get(AUTOLOAD)
    return wish == "0" if wish in ("0", "1") else find_gpu(sys.modules["torch"]) is not None


def find_gpu(torch: Any) -> str | None:
    try:
        return _gpu.find(torch)
    except (
        Exception
    ):  # it looks into torch, which may change; a GPU that is not found must not end `import torch`
        return None


def libraries() -> list[str]:
    """The shared libraries of this package, each after those that it needs."""
    beside = [os.path.join(PACKAGE_DIR, "_C" + suffix) for suffix in importlib.machinery.EXTENSION_SUFFIXES]
    extension = next((path for path in beside if os.path.exists(path)), beside[0])
    linked = [os.path.join(PACKAGE_DIR, "lib", f"lib{name}.so") for name in (DEVICE_NAME, PACKAGE)]
    return [*linked, extension]


def check_library(path: str) -> None:
    """Raises an Obstacle if the file is missing or cut short.

    A library that was cut short may not fail to load but kill the process with SIGBUS, out of reach of
    ``except``.
    """
    try:
        with open(path, "rb") as file:
            header = file.read(64)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise Obstacle(f"{path} cannot be read ({error.strerror})", REINSTALL) from error
    if len(header) == 64 and header[:5] == b"\x7fELF\x02":
        # A linker writes the section table last, so a whole file reaches at least to the end of it.
        (offset,) = struct.unpack_from("<Q", header, 0x28)
        entry_size, entries = struct.unpack_from("<HH", header, 0x3A)
        if size < offset + entry_size * entries:
            raise Obstacle(
                f"{path} is cut short: {size} of at least {offset + entry_size * entries} bytes", REINSTALL
            )


def version_mismatch(found: str) -> Obstacle | None:
    """torch's C++ interfaces change with the minor version and only then; "+cpu" does not matter."""
    if _minor(found) == _minor(TORCH_VERSION):
        return None
    return Obstacle(
        f"it was built for torch {TORCH_VERSION} and this is torch {found}",
        f"install the {PACKAGE} for torch {_minor(found)}, build it again with this torch, "
        f"or install torch {_minor(TORCH_VERSION)}",
    )


def _integrate(torch: Any) -> ModuleType:
    existing: Any = getattr(torch, DEVICE_NAME, None)
    if getattr(existing, "__name__", None) == f"{PACKAGE}.{DEVICE_NAME}":
        return existing
    _check_build(torch)
    _check_name(existing)
    _check_slot(torch)
    _import_libraries()
    _name_slot(torch)
    module = importlib.import_module(f"{PACKAGE}.{DEVICE_NAME}")
    torch._register_device_module(DEVICE_NAME, module)
    _generate_methods(torch)
    return module


def _check_build(torch: Any) -> None:
    if not TORCH_VERSION:
        raise Obstacle(
            f"{PACKAGE_DIR} has no _build.py: it is a source tree, and no built {PACKAGE} is installed",
            "build and install it: pip install --no-build-isolation, and the folder above that one",
        )
    mismatch = version_mismatch(torch.__version__)
    if mismatch:
        raise mismatch


def _check_name(existing: object) -> None:
    if existing is not None:
        raise Obstacle(
            f"torch.{DEVICE_NAME}, where torch looks for the device's module, is {existing!r}",
            f"find who sets torch.{DEVICE_NAME} and remove that",
        )


def _check_slot(torch: Any) -> None:
    holder = torch._C._get_privateuse1_backend_name()
    if holder not in (FREE_NAME, DEVICE_NAME):
        raise Obstacle(
            f"PrivateUse1, torch's one place for a device from outside, is taken by the backend '{holder}'",
            f"uninstall that backend or {PACKAGE}; or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 "
            "and import the one you want",
        )
    if _is_used(torch):
        raise Obstacle(
            "PrivateUse1, torch's one place for a device from outside, is in use by a backend without a name",
            f"do not load that backend (python -m {PACKAGE} doctor lists those that torch loads)",
        )


def _is_used(torch: Any) -> bool:
    """Whether a backend is on PrivateUse1. Its allocator and guard cannot be seen from Python."""
    if hasattr(torch, FREE_NAME) or _has_hooks(torch):
        return True
    operators = ("aten::empty.memory_format", "aten::empty_strided", "aten::_copy_from", "aten::copy_")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(has_kernel(operator, "PrivateUse1") for operator in operators)


def _has_hooks(torch: Any) -> bool:
    """torch ends the process when hooks are registered twice. Without any it cannot make a generator."""
    try:
        torch.Generator(torch._C._get_privateuse1_backend_name())
    except NotImplementedError:
        return True
    except RuntimeError:
        return False
    return True


def _import_libraries() -> None:
    for path in libraries():
        check_library(path)
    try:
        importlib.import_module(f"{PACKAGE}._C")
    except Exception as error:
        raise Obstacle(f"its libraries do not load ({one_line(error)})", REINSTALL) from error


def _name_slot(torch: Any) -> None:
    # C++ may have set the name; torch's Python side keeps its own copy and the aliases that go with it.
    if torch.utils.backend_registration._privateuse1_backend_name != DEVICE_NAME:
        torch.utils.rename_privateuse1_backend(DEVICE_NAME)


def _generate_methods(torch: Any) -> None:
    """``Tensor.<device>()`` and its like. torch raises for one that exists: it stays, the others come."""
    groups = ("for_tensor", "for_module", "for_storage", "for_packed_sequence")
    for group in groups:
        with contextlib.suppress(RuntimeError):
            torch.utils.generate_methods_for_privateuse1_backend(**{name: name == group for name in groups})


def _as_obstacle(error: Exception) -> Obstacle:
    if isinstance(error, Obstacle):
        return error
    obstacle = Obstacle(f"its integration with torch failed ({one_line(error)})", REINSTALL)
    obstacle.__cause__ = error
    return obstacle


def _attach_stand_in(torch: Any, obstacle: Obstacle) -> ModuleType:
    stand_in = _stand_in(obstacle)
    sys.modules[f"{PACKAGE}.{DEVICE_NAME}"] = stand_in
    setattr(sys.modules[PACKAGE], DEVICE_NAME, stand_in)
    if hasattr(torch, DEVICE_NAME):
        return stand_in
    setattr(torch, DEVICE_NAME, stand_in)
    sys.modules[f"torch.{DEVICE_NAME}"] = stand_in
    # What follows makes the error at first use a better one. Were it to fail, torch must go on all the same.
    with contextlib.suppress(Exception):
        _name_for_stand_in(torch)
    return stand_in


def _name_for_stand_in(torch: Any) -> None:
    """Makes the device's name known where that costs nobody anything, so that using it raises the cause."""
    holder = torch._C._get_privateuse1_backend_name()
    if holder == FREE_NAME:
        # A named PrivateUse1 goes before a GPU in torch.accelerator: not for a device that does not work.
        if _is_used(torch) or find_gpu(torch) is not None:
            return
    elif holder != DEVICE_NAME:
        return
    with contextlib.suppress(RuntimeError):  # our library has registered its own, if it came that far
        _unavailable._register_hooks(torch)
    _name_slot(torch)
    _generate_methods(torch)


def _stand_in(obstacle: Obstacle) -> ModuleType:
    _unavailable._obstacle = obstacle
    _unavailable._device_name = DEVICE_NAME
    _warn(obstacle)
    return _unavailable


def _warn(obstacle: Obstacle) -> None:
    global _warned
    if _warned:
        return
    _warned = True
    text = (
        f"{PACKAGE} {VERSION or '(not built)'} could not load the device '{DEVICE_NAME}': {obstacle}. "
        f"python -m {PACKAGE} doctor examines the installation. Until then its use raises this cause."
    )
    try:
        warnings.warn_explicit(text, DeviceUnavailableWarning, *_importer())
    except DeviceUnavailableWarning:  # -W error: still no reason for `import torch` to fail
        print(text, file=sys.stderr)


def _importer() -> tuple[str, int]:
    """The line of the program that imported torch or this package."""
    frame = sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in (
        PACKAGE,
        "torch",
        "importlib",
    ):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _minor(version: str) -> str:
    match = re.match(r"\d+\.\d+", version)
    return match.group() if match else version


def one_line(error: BaseException) -> str:
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    text = text if len(text) <= 500 else f"{text[:500]}..."
    return text if error.__cause__ is None else f"{text} Caused by {one_line(error.__cause__)}"
