"""The device's module, which becomes ``torch.bar``, in a package that imports torch at its top."""

import os
import sys

_VARIABLE = "TORCH_DEVICE_BACKEND_AUTOLOAD"

# A program that imports this package first makes it bring torch in, and torch would call an _autoload that is
# not defined yet. So torch's autoload is switched off for the duration of that import, and only then.
_brings_torch_in = "torch" not in sys.modules
_former = os.environ.get(_VARIABLE)
if _brings_torch_in:
    os.environ[_VARIABLE] = "0"
try:
    import torch
finally:
    # The variable belongs to the user, and child processes inherit it.
    if _brings_torch_in:
        if _former is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = _former


def device_count() -> int:
    """There is no device behind this example: the variable stands where a driver would be asked."""
    return int(os.environ.get("TORCH_BAR_DEVICES", "0"))


def is_available() -> bool:
    return device_count() > 0


def _autoload() -> None:
    """The ``torch.backends`` entry point. To find it torch imported this package: the work is done."""


if not hasattr(torch, "bar"):
    torch.bar = sys.modules[__name__]
    sys.modules["torch.bar"] = torch.bar

# The switch kept every other backend out as well. This module is whole now: let torch do what it skipped.
if _brings_torch_in and torch._is_device_backend_autoload_enabled():
    torch._import_device_backends()
