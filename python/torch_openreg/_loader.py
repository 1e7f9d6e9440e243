"""Loads the device into torch, once per process. No failure propagates to ``import torch``.

Note [Lock order of imports]
torch imports this package at the end of its own import, and this package imports torch. Python detects deadlocks
between its import locks, but not with ``_lock``. So ``import torch`` runs before ``_lock`` is acquired: a thread that
holds ``_lock`` never waits for an import of torch in another thread, which may wait for ``_lock``.
"""

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import re
import struct
import sys
import threading
import warnings
from types import ModuleType
from typing import Any

from torch_openreg import _driver, _gpu, _unavailable
from torch_openreg._name import DEVICE_NAME, setting
from torch_openreg._unavailable import DeviceUnavailableWarning, LoadError

try:
    from torch_openreg._build import HOST_ENGINE, TORCH_VERSION, VERSION
except ImportError:
    HOST_ENGINE, TORCH_VERSION, VERSION = True, "", ""

PACKAGE = __package__
PACKAGE_DIR = os.path.dirname(os.path.abspath(__file__))
MODULE = f"{PACKAGE}.openreg"  # is torch.<device>
AUTOLOAD = setting("AUTOLOAD")
ENGINE = setting("HOST_ENGINE")
FREE_NAME = _driver.RESERVED  # the name of PrivateUse1 while no backend has named it
REINSTALL = (
    f"reinstall {PACKAGE}: pip install --force-reinstall --no-deps --no-build-isolation, "
    "followed by its name or source folder"
)

_lock = threading.RLock()  # guards _loaded and the changes to torch; see Note [Lock order of imports]
_loaded: ModuleType | None = None
_warned = False


def load() -> ModuleType:
    """Returns the device's module, or the placeholder if the device cannot be loaded. Does not raise."""
    try:
        import torch
    except Exception as error:
        load_error = LoadError(
            f"torch could not be imported ({one_line(error)})",
            "repair torch first; if the message names another backend, uninstall that, or set "
            f"TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import {PACKAGE}",
        )
        load_error.__cause__ = error
        return _placeholder(load_error)  # not cached: a later import of torch may succeed

    global _loaded
    with _lock:
        if _loaded is None:
            try:
                _loaded = _integrate(torch)
            except Exception as error:
                _loaded = _attach_placeholder(torch, _as_load_error(error))
        return _loaded


def leaves_accelerator() -> bool:
    """Whether ``import torch`` must not load the device: <DEVICE>_AUTOLOAD=0, or by default if the device is simulated
    and there is a GPU.

    A named PrivateUse1 is torch's accelerator, with precedence over a GPU. Otherwise device-generic programs would run
    on the simulated device just because it is installed. A vendor's driver is installed to be used.
    """
    setting = os.environ.get(AUTOLOAD)
    if setting in ("0", "1"):
        return setting == "0"
    return _driver.is_simulated() and find_gpu(sys.modules["torch"]) is not None


def find_gpu(torch: Any) -> str | None:
    try:
        return _gpu.find(torch)
    except Exception:  # _gpu uses private functions of torch; a failure must not break `import torch`
        return None


def libraries(host_engine: bool = HOST_ENGINE) -> list[str]:
    """The shared libraries of this package, in dependency order, with or without the host engine."""
    folder = PACKAGE_DIR if host_engine else os.path.join(PACKAGE_DIR, "no_engine")
    beside = [os.path.join(folder, "_C" + suffix) for suffix in importlib.machinery.EXTENSION_SUFFIXES]
    extension = next((path for path in beside if os.path.exists(path)), beside[0])
    runtime = os.path.join(PACKAGE_DIR, "lib", "libopenreg.so")
    return [runtime, os.path.join(folder, "lib" if host_engine else "", f"lib{PACKAGE}.so"), extension]


def check_library(path: str) -> None:
    """Raises a LoadError if the file is missing or truncated.

    Loading a truncated library may terminate the process with SIGBUS, which ``except`` cannot catch.
    """
    try:
        with open(path, "rb") as file:
            header = file.read(64)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise LoadError(f"{path} cannot be read ({error.strerror})", REINSTALL) from error
    if len(header) == 64 and header[:5] == b"\x7fELF\x02":
        # The section table is the last part of the file that a linker writes.
        (offset,) = struct.unpack_from("<Q", header, 0x28)
        entry_size, entries = struct.unpack_from("<HH", header, 0x3A)
        if size < offset + entry_size * entries:
            raise LoadError(
                f"{path} is truncated: {size} of at least {offset + entry_size * entries} bytes", REINSTALL
            )


def version_mismatch(found: str) -> LoadError | None:
    """Compares minor versions: torch's C++ ABI is stable within one. A suffix such as "+cpu" is ignored."""
    if _minor(found) == _minor(TORCH_VERSION):
        return None
    return LoadError(
        f"it was built for torch {TORCH_VERSION}, and this is torch {found}",
        f"install the {PACKAGE} for torch {_minor(found)}, rebuild it with this torch, "
        f"or install torch {_minor(TORCH_VERSION)}",
    )


def _integrate(torch: Any) -> ModuleType:
    existing: Any = getattr(torch, DEVICE_NAME, None)
    if getattr(existing, "__name__", None) == MODULE:
        return existing
    _check_build(torch)
    _driver.check_name()
    _check_name(torch)
    _check_slot(torch)
    _import_libraries(_driver.registered())
    _name_slot(torch)
    module = importlib.import_module(MODULE)
    _apply_settings()
    torch._register_device_module(DEVICE_NAME, module)
    _name_submodules()
    _generate_methods(torch)
    importlib.import_module(f"{PACKAGE}.distributed").register()
    patches = importlib.import_module(f"{PACKAGE}.compiler.patches")
    patches.apply(patches.AT_IMPORT)
    return module


def _apply_settings() -> None:
    """Applies settings that find bugs. Invalid values are an error: without them, tests would pass for no reason."""
    injection = importlib.import_module(f"{MODULE}.fault_injection")
    races = importlib.import_module(f"{MODULE}.races")
    hangs = importlib.import_module(f"{MODULE}.hangs")
    memory_check = importlib.import_module(f"{MODULE}.memory_check")
    for module in (injection, races, hangs, memory_check):
        try:
            module.apply_environment()
        except ValueError as error:
            raise LoadError(str(error), "correct the setting, or unset it") from error


def _check_build(torch: Any) -> None:
    if not TORCH_VERSION:
        raise LoadError(
            f"{PACKAGE_DIR} has no _build.py: it is a source tree, and no built {PACKAGE} is installed",
            "build and install it: pip install --no-build-isolation, followed by the path of the repository",
        )
    mismatch = version_mismatch(torch.__version__)
    if mismatch:
        raise mismatch


def name_reserved(torch: Any, name: str) -> LoadError | None:
    """Whether the name, or a method that has it, is torch's own."""
    remedy = "choose another name for the device"
    if torch._C._get_privateuse1_backend_name() != name and _is_device_type(torch, name):
        return LoadError(f"'{name}' is a device type of torch", remedy)
    for owner, attribute in (
        (torch.Tensor, name),
        (torch.Tensor, f"is_{name}"),
        (torch.nn.Module, name),
    ):
        if hasattr(owner, attribute):
            where = "torch.Tensor" if owner is torch.Tensor else "torch.nn.Module"
            return LoadError(f"{where}.{attribute} exists, and the device would have it, too", remedy)
    return None


def name_conflict(torch: Any, name: str) -> LoadError | None:
    """Whether torch or another module uses the name already."""
    if (reserved := name_reserved(torch, name)) is not None:
        return reserved
    existing = getattr(torch, name, None)
    if existing is not None:
        return LoadError(
            f"torch.{name}, the attribute for the device's module, is already set to {existing!r}",
            f"remove the code that sets torch.{name}, or choose another name for the device",
        )
    return None


def _check_name(torch: Any) -> None:
    conflict = name_conflict(torch, DEVICE_NAME)
    if conflict is not None:
        raise conflict


def _is_device_type(torch: Any, name: str) -> bool:
    with contextlib.suppress(RuntimeError):
        torch.device(name)
        return True
    return False


def _check_slot(torch: Any) -> None:
    holder = torch._C._get_privateuse1_backend_name()
    if holder not in (FREE_NAME, DEVICE_NAME):
        raise LoadError(
            f"PrivateUse1, torch's only device type for out-of-tree devices, is in use by the backend '{holder}'",
            f"uninstall that backend or {PACKAGE}; or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 "
            "and import one of them",
        )
    if _is_used(torch):
        raise LoadError(
            "PrivateUse1, torch's only device type for out-of-tree devices, is in use by a backend without a name",
            f"do not load that backend (python -m {PACKAGE} doctor lists the backends that torch loads)",
        )


def _is_used(torch: Any) -> bool:
    """Whether a backend uses PrivateUse1. A registered allocator or guard is not visible from Python."""
    if hasattr(torch, FREE_NAME) or _has_hooks(torch):
        return True
    operators = ("aten::empty.memory_format", "aten::empty_strided", "aten::_copy_from", "aten::copy_")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(has_kernel(operator, "PrivateUse1") for operator in operators)


def _has_hooks(torch: Any) -> bool:
    """Registering hooks twice terminates the process, so this checks: torch.Generator needs hooks."""
    try:
        torch.Generator(torch._C._get_privateuse1_backend_name())
    except NotImplementedError:
        return True
    except RuntimeError:
        return False
    return True


def _import_libraries(driver: _driver.Registered | None) -> None:
    """Configures the runtime, and loads the libraries that the driver needs."""
    library = libraries()[0]  # the same with and without the host engine
    check_library(library)
    runtime = _driver.Runtime(library)
    runtime.configure(DEVICE_NAME, driver)
    _, *with_torch = libraries(uses_host_engine(runtime))
    for path in with_torch:
        check_library(path)
    try:
        _import_extension(with_torch[-1])
    except Exception as error:
        raise LoadError(f"its libraries cannot be loaded ({one_line(error)})", REINSTALL) from error


def uses_host_engine(runtime: _driver.Runtime) -> bool:
    """Whether operators run as host code on device memory. Otherwise as functions of the driver, else on the CPU."""
    if not HOST_ENGINE or os.environ.get(ENGINE) == "0":
        return False
    info = runtime.driver_info()
    return info is None or bool(info.capabilities & _driver.HOST_EXECUTABLE)


def _import_extension(path: str) -> None:
    name = f"{PACKAGE}._C"
    if name in sys.modules:
        return
    spec: Any = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    sys.modules[PACKAGE]._C = module  # type: ignore[attr-defined]


def _name_slot(torch: Any) -> None:
    # The name may be set in C++ only; torch's Python code has its own copy, and aliases for it.
    if torch.utils.backend_registration._privateuse1_backend_name != DEVICE_NAME:
        torch.utils.rename_privateuse1_backend(DEVICE_NAME)


def _name_submodules() -> None:
    """``import torch.<device>.memory`` finds the loaded module. Otherwise Python would load a second copy."""
    for name in [name for name in sys.modules if name.startswith(f"{MODULE}.")]:
        sys.modules[f"torch.{DEVICE_NAME}{name.removeprefix(MODULE)}"] = sys.modules[name]


def _generate_methods(torch: Any) -> None:
    """Generates ``Tensor.<device>()`` and similar methods. A method that already exists is kept."""
    groups = ("for_tensor", "for_module", "for_storage", "for_packed_sequence")
    for group in groups:
        with contextlib.suppress(RuntimeError):
            torch.utils.generate_methods_for_privateuse1_backend(**{name: name == group for name in groups})


def _as_load_error(error: Exception) -> LoadError:
    if isinstance(error, LoadError):
        return error
    load_error = LoadError(f"its integration with torch failed ({one_line(error)})", REINSTALL)
    load_error.__cause__ = error
    return load_error


def _attach_placeholder(torch: Any, load_error: LoadError) -> ModuleType:
    placeholder = _placeholder(load_error)
    sys.modules[MODULE] = placeholder
    setattr(sys.modules[PACKAGE], MODULE.rpartition(".")[2], placeholder)
    if hasattr(torch, DEVICE_NAME):
        return placeholder
    setattr(torch, DEVICE_NAME, placeholder)
    sys.modules[f"torch.{DEVICE_NAME}"] = placeholder
    # Optional: improves the error at the first use. A failure must not break torch.
    with contextlib.suppress(Exception):
        _name_slot_for_placeholder(torch)
    return placeholder


def _name_slot_for_placeholder(torch: Any) -> None:
    """Registers the device's name if no backend or GPU is affected, so that its use raises the cause."""
    holder = torch._C._get_privateuse1_backend_name()
    if holder == FREE_NAME:
        # A named PrivateUse1 has precedence over a GPU in torch.accelerator.
        if _is_used(torch) or find_gpu(torch) is not None:
            return
    elif holder != DEVICE_NAME:
        return
    with contextlib.suppress(RuntimeError):  # the library may have registered its own hooks
        _unavailable._register_hooks(torch)
    _name_slot(torch)
    _generate_methods(torch)


def _placeholder(load_error: LoadError) -> ModuleType:
    _unavailable._load_error = load_error
    _unavailable._device_name = DEVICE_NAME
    _warn(load_error)
    return _unavailable


def _warn(load_error: LoadError) -> None:
    global _warned
    if _warned:
        return
    _warned = True
    text = (
        f"{PACKAGE} {VERSION or '(not built)'} could not load the device '{DEVICE_NAME}': {load_error}. "
        f"Run python -m {PACKAGE} doctor to diagnose the installation. Any use of '{DEVICE_NAME}' raises this error."
    )
    try:
        warnings.warn_explicit(text, DeviceUnavailableWarning, *_importer())
    except DeviceUnavailableWarning:  # -W error: `import torch` must still succeed
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
