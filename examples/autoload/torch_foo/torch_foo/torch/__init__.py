"""The module ``torch.foo`` of the device."""

import os
import sys

import torch_foo

torch_foo.is_loaded = True  # before importing torch, which calls torch_foo._autoload at its end
try:
    import torch
except BaseException:
    torch_foo.is_loaded = False
    raise


def device_count() -> int:
    """The example has no device: the variable replaces a query of the driver."""
    return int(os.environ.get("TORCH_FOO_DEVICES", "0"))


def is_available() -> bool:
    return device_count() > 0


if not hasattr(torch, "foo"):
    torch.foo = sys.modules[__name__]
    sys.modules["torch.foo"] = torch.foo
