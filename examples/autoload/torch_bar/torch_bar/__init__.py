"""The module ``torch.bar`` of the device, in a package that imports torch at the top of the module."""

import os
import sys

_VARIABLE = "TORCH_DEVICE_BACKEND_AUTOLOAD"

# If a program imports this package before torch, torch would call _autoload before it is defined. So autoload is
# disabled during that import, and only then.
_imports_torch = "torch" not in sys.modules
_saved_value = os.environ.get(_VARIABLE)
if _imports_torch:
    os.environ[_VARIABLE] = "0"
try:
    import torch
finally:
    # Restore the user's value: child processes inherit the variable.
    if _imports_torch:
        if _saved_value is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = _saved_value


def device_count() -> int:
    """The example has no device: the variable replaces a query of the driver."""
    return int(os.environ.get("TORCH_BAR_DEVICES", "0"))


def is_available() -> bool:
    return device_count() > 0


def _autoload() -> None:
    """The ``torch.backends`` entry point. Nothing to do: torch has imported this package to find it."""


if not hasattr(torch, "bar"):
    torch.bar = sys.modules[__name__]
    sys.modules["torch.bar"] = torch.bar

# The other backends were skipped too. This module is fully initialized now, so torch can load them.
if _imports_torch and torch._is_device_backend_autoload_enabled():
    torch._import_device_backends()
