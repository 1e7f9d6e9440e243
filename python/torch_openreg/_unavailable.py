"""What torch.<device> is when the device could not be loaded: a module that says so.

Some questions torch asks of every device's module, whether or not anyone wants the device: is there one, how
many, seed them all. Those have true answers here. Everything else is a use of the device and raises why not.
"""

from typing import Any, NoReturn


class DeviceUnavailableWarning(UserWarning):
    """The device could not be loaded. Given once per process, when torch or this package is imported."""


class DeviceUnavailableError(RuntimeError, AttributeError):
    """A use of a device that could not be loaded.

    Also an AttributeError, so that ``hasattr(torch.<device>, name)``, which torch and many libraries ask,
    answers False rather than fails.
    """


class Obstacle(Exception):
    """Why the device cannot be loaded, and what to do about it. ``__cause__`` is the error met, if any."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}. To fix it: {remedy}")
        self.what = what
        self.remedy = remedy


# Set by the loader before anybody can see this module.
_obstacle: Obstacle | None = None
_device_name = ""

_hooks: Any = None  # torch keeps a bare pointer to them


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def device_count() -> int:
    return 0


def _is_in_bad_fork() -> bool:
    return False


def manual_seed_all(seed: int) -> None:
    """``torch.manual_seed`` calls this; no device, no generator to seed."""


def get_amp_supported_dtype() -> NoReturn:
    """Here because ``torch.autocast`` answers its absence with advice to the author of the backend."""
    raise _error()


def _lazy_init() -> NoReturn:
    """torch calls this before it first makes a tensor on the device."""
    raise _error()


def _error() -> DeviceUnavailableError:
    error = DeviceUnavailableError(f"The device '{_device_name}' is not available: {_obstacle}")
    error.__cause__ = None if _obstacle is None else _obstacle.__cause__
    return error


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):  # Python's own questions, about every module
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    raise _error()


def _register_hooks(torch: Any) -> None:
    """Lets torch's C++ ask whether the device is there.

    Without hooks, ``torch.get_device_module()`` fails where PrivateUse1 has a name and no backend.
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
