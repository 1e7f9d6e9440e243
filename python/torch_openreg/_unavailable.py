"""Placeholder for the module torch.<device> if the device could not be loaded.

torch calls some functions of every device's module even if a program does not use the device: availability, device
count, seeding. These work here. Every other attribute raises an error with the cause.
"""

from typing import Any, NoReturn


class DeviceUnavailableWarning(UserWarning):
    """The device could not be loaded. Issued once per process, when torch or this package is imported."""


class DeviceUnavailableError(RuntimeError, AttributeError):
    """Use of a device that could not be loaded.

    Also an AttributeError, so that ``hasattr(torch.<device>, name)``, which torch and many libraries call, returns
    False instead of raising.
    """


class LoadError(Exception):
    """Why the device cannot be loaded, and the remedy. ``__cause__`` is the original exception, if any."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}. To fix it: {remedy}")
        self.what = what
        self.remedy = remedy


# Set by the loader before this module is reachable as torch.<device>.
_load_error: LoadError | None = None
_device_name = ""

_hooks: Any = None  # keeps the object alive: torch stores a raw pointer to it


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def device_count() -> int:
    return 0


def _is_in_bad_fork() -> bool:
    return False


def manual_seed_all(seed: int) -> None:
    """Called by ``torch.manual_seed``. There is no generator to seed."""


def get_amp_supported_dtype() -> NoReturn:
    """Defined because without it ``torch.autocast`` raises an error meant for backend authors."""
    raise _error()


def _lazy_init() -> NoReturn:
    """Called by torch before it creates the first tensor on the device."""
    raise _error()


def _error() -> DeviceUnavailableError:
    error = DeviceUnavailableError(f"The device '{_device_name}' is not available: {_load_error}")
    error.__cause__ = None if _load_error is None else _load_error.__cause__
    return error


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):  # looked up by Python itself
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    raise _error()


def _register_hooks(torch: Any) -> None:
    """Registers hooks that report no device to torch's C++ code.

    Without hooks, ``torch.get_device_module()`` fails if PrivateUse1 has a name but no backend.
    """

    class NoDevice(torch._C._acc.PrivateUse1Hooks):
        def is_available(self) -> bool:
            return False

        def is_built(self) -> bool:
            return False

        def has_primary_context(self, index: int) -> bool:
            return False

    global _hooks
    _hooks = NoDevice()
    torch._C._acc.register_python_privateuseone_hook(_hooks)
    # It would fail with an internal assertion. torch.accelerator.empty_cache() and memory_allocated() call it.
    torch._C._accelerator_isAllocatorInitialized = lambda: False
