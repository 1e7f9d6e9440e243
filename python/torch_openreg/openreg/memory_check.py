"""The memory check of a whole process, ``OPENREG_MEMORY_CHECK=1``. See docs/guide/finding_bugs.md."""

import os
import warnings

from torch_openreg import _C
from torch_openreg._name import DEVICE_NAME, setting

MEMORY_CHECK = setting("MEMORY_CHECK")
QUARANTINE = setting("MEMORY_CHECK_QUARANTINE")
_DEFAULT_QUARANTINE = 256  # MiB


def apply_environment() -> None:
    """Starts the check, at the load of the device. Raises a ValueError."""
    value = os.environ.get(MEMORY_CHECK, "")
    if value not in ("", "0", "1"):
        raise ValueError(f"{MEMORY_CHECK} is {value!r}: expected 0 or 1")
    quarantine = os.environ.get(QUARANTINE, "") or str(_DEFAULT_QUARANTINE)
    if not (quarantine.isascii() and quarantine.isdecimal() and len(quarantine) < 10):
        raise ValueError(f"{QUARANTINE} is {quarantine!r}: expected a number of MiB")
    if value == "1" and not _C.start_memory_check(int(quarantine) << 20):
        warnings.warn(
            f"{MEMORY_CHECK} has no effect: the driver of {DEVICE_NAME!r} does not run host code as kernels",
            stacklevel=2,
        )
