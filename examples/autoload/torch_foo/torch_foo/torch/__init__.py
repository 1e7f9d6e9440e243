"""The device's module, which becomes ``torch.foo``."""

import os
import sys

import torch_foo

torch_foo.is_loaded = True  # before the next import, whose last act is to call torch_foo._autoload
try:
    import torch
except BaseException:
    torch_foo.is_loaded = False
    raise


def device_count() -> int:
    """There is no device behind this example: the variable stands where a driver would be asked."""
    return int(os.environ.get("TORCH_FOO_DEVICES", "0"))


def is_available() -> bool:
    return device_count() > 0


if not hasattr(torch, "foo"):
    torch.foo = sys.modules[__name__]
    sys.modules["torch.foo"] = torch.foo
