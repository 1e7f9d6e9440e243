"""The name of the device in this process: "openreg", or the one that a vendor's package or a variable gives it.

Names of settings begin with it: ``OPENREG_AUTOLOAD``, ``OPENREG_ALLOC_CONF``.
"""

from torch_openreg import _driver

DEVICE_NAME = _driver.device_name()


def setting(name: str) -> str:
    """The environment variable of a setting."""
    return f"{DEVICE_NAME.upper()}_{name}"
