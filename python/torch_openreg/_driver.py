"""The driver of the process, and the name that it gives the device. See docs/guide/driver.md.

A vendor's package registers a driver with an entry point in the group ``torch_openreg.drivers``. The name of the entry
point is the name of the device. Its value is the path of the shared library, or a function that returns it. It is loaded
with torch, so the vendor's module must not import torch at its top.
"""

import ctypes
import functools
import os
import re
import sys
from importlib import metadata
from typing import NamedTuple

from torch_openreg._unavailable import LoadError

GROUP = f"{__package__}.drivers"
VARIABLE = "OPENREG_DRIVER"  # a path, "sim", or the name of an entry point
NAME_VARIABLE = "OPENREG_DEVICE_NAME"  # has precedence over their names
EMBEDDED = "sim"
RESERVED = "privateuseone"
DEFAULT_NAME = __package__.removeprefix("torch_")
HOST_EXECUTABLE = 1 << 0  # OR_CAP_HOST_EXECUTABLE of types.h
PEER_COPY = 1 << 1  # OR_CAP_PEER_COPY


class Registered(NamedTuple):
    name: str  # of the entry point
    path: str  # of the shared library
    origin: str  # the package and the entry point, for messages


class DriverInfo(ctypes.Structure):
    """orDriverInfo of openreg.h."""

    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("runtime_version", ctypes.c_uint32),
        ("table_size", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("path", ctypes.c_char_p),
        ("capabilities", ctypes.c_uint64),
    )


class Runtime:
    """The library of the C interface, before libtorch_openreg is loaded: which one to load depends on the driver."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path, mode=os.RTLD_NOW)
        self.library.orGetLastErrorMessage.restype = ctypes.c_char_p

    def error(self) -> str:
        return self.library.orGetLastErrorMessage().decode(errors="replace")

    def configure(self, name: str, driver: Registered | None) -> None:
        """Names the device and chooses the driver, which the first call that needs it loads."""
        if self.library.orSetDeviceName(name.encode()) or (
            driver is not None
            and self.library.orSetDriverFrom(os.fsencode(driver.path), driver.origin.encode(errors="replace"))
        ):
            raise LoadError(self.error(), "import torch before other users of the runtime")
        if driver is not None and os.environ.get(VARIABLE) == driver.name:
            os.environ[VARIABLE] = driver.path  # the runtime reads it, and knows no entry points

    def driver_info(self) -> DriverInfo | None:
        """Loads the driver. None: it cannot be loaded; every use of a device raises the error."""
        info = DriverInfo(struct_size=ctypes.sizeof(DriverInfo))
        return None if self.library.orGetDriverInfo(ctypes.byref(info)) else info


def device_name() -> str:
    """The default name, if the chosen name is not valid; ``check_name`` raises the error."""
    name = _chosen_name()
    return name if _is_valid(name) else DEFAULT_NAME


def check_name() -> None:
    entry = None if os.environ.get(NAME_VARIABLE) else _chosen()
    origin = NAME_VARIABLE if entry is None else f"the entry point of {_describe(entry)}"
    error = name_error(_chosen_name(), origin)
    if error is not None:
        raise error


def name_error(name: str, origin: str) -> LoadError | None:
    """None if the name is valid; `origin` is its source."""
    if _is_valid(name):
        return None
    if name == RESERVED:
        return LoadError(
            f"'{name}', from {origin}, is torch's own name of a device without a name", "choose another name"
        )
    return LoadError(
        f"'{name}', from {origin}, cannot be the name of a device",
        "use 1 to 63 lower-case letters and underscores, beginning with a letter (torch's device strings have digits only "
        "in the index)",
    )


def is_simulated() -> bool:
    """Whether no driver is chosen, so that the device is the embedded one."""
    variable = os.environ.get(VARIABLE)
    return variable == EMBEDDED or (not variable and not _entries())


def registered() -> Registered | None:
    """The driver of an entry point. None: none is registered, or the variable names another one."""
    entry = _chosen()
    if entry is None:
        if os.environ.get(VARIABLE) or not _entries():
            return None
        found = ", ".join(sorted(_describe(entry) for entry in _entries()))
        choices = " or ".join(sorted({f"{VARIABLE}={entry.name}" for entry in _entries()}))
        raise LoadError(
            f"several drivers are registered, and torch has the device of none: {found}",
            f"set {choices} (or {VARIABLE}={EMBEDDED}), or uninstall the packages of all but one",
        )
    try:
        return Registered(entry.name, _path(entry), _describe(entry))
    except (Exception, SystemExit) as error:  # must not end `import torch`
        raise LoadError(
            f"the driver that {_describe(entry)} registers cannot be found ({type(error).__name__}: {error})",
            f"reinstall or uninstall that package, or set {VARIABLE}={EMBEDDED} for the simulated device",
        ) from error


def package() -> str | None:
    """The package whose driver is in use, unless the variable names the driver."""
    entry = None if os.environ.get(VARIABLE) else _chosen()
    return None if entry is None else _describe(entry)


def _chosen_name() -> str:
    entry = None if os.environ.get(NAME_VARIABLE) else _chosen()
    return os.environ.get(NAME_VARIABLE) or (DEFAULT_NAME if entry is None else entry.name)


def _is_valid(name: str) -> bool:
    """As orSetDeviceName."""
    return name != RESERVED and re.fullmatch(r"[a-z][a-z_]{0,62}", name) is not None


@functools.cache
def _chosen() -> metadata.EntryPoint | None:
    """The entry point in use: the only one, or the one whose name or library the variable names."""
    variable = os.environ.get(VARIABLE)
    entries = [] if variable == EMBEDDED else _entries()
    if variable:
        entries = [entry for entry in entries if entry.name == variable or _has_path(entry, variable)]
    return entries[0] if len(entries) == 1 else None


def _has_path(entry: metadata.EntryPoint, path: str) -> bool:
    try:
        return os.sep in path and os.path.samefile(_path(entry), path)
    except (Exception, SystemExit):  # a driver that is not in use need not work
        return False


def _path(entry: metadata.EntryPoint) -> str:
    value = entry.load()
    path = os.fsdecode(value() if callable(value) else value)
    if not os.path.isabs(path) or "\0" in path:
        raise ValueError(f"{path!r} is not an absolute path")
    return path


@functools.cache
def _entries() -> list[metadata.EntryPoint]:
    if not any(map(_names_group, sys.path)):
        return []
    return list(metadata.entry_points(group=GROUP))


def _names_group(folder: str) -> bool:
    """Whether a distribution in this folder has an entry point of the group, or the folder is a file, such as a zip file.

    ``metadata.entry_points`` parses the files of all distributions, which takes milliseconds of `import torch`.
    """
    try:
        with os.scandir(folder or os.curdir) as entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")):
                    try:
                        with open(os.path.join(entry.path, "entry_points.txt"), "rb") as file:
                            if GROUP.encode() in file.read():
                                return True
                    except OSError:  # has no entry points, or is a file
                        continue
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _describe(entry: metadata.EntryPoint) -> str:
    dist = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
    return f"{dist} ({entry.name} = {entry.value})"
