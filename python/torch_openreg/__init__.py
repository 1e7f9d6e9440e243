"""A PyTorch device that lives outside PyTorch's tree. ``import torch`` finds it; see docs/guide/autoload.md.

Importing this package never raises for want of a working device or of torch: one
``DeviceUnavailableWarning`` says what is wrong, and ``python -m torch_openreg doctor`` says more.
"""

import os
import sys
from types import ModuleType

__all__ = ["DeviceUnavailableError", "DeviceUnavailableWarning", "__version__"]


def _autoload() -> ModuleType:
    """The ``torch.backends`` entry point: loads the device, once, and returns its module.

    Stands above every import of ours: when this package is imported before torch, torch's own import calls
    this function on a package that is only half executed.
    """
    from torch_openreg import _loader

    return _loader.load()


from torch_openreg._unavailable import DeviceUnavailableError, DeviceUnavailableWarning  # noqa: E402

try:
    from torch_openreg._build import VERSION as __version__
except ImportError:  # a source tree, and nothing is installed; the loader says so in words
    __version__ = "unknown"


def _is_command() -> bool:
    """Whether Python is starting ``python -m torch_openreg``, whose commands load the device themselves.

    The doctor has to survive a device that crashes its process. While Python looks for the module that
    ``-m`` names, and only then, ``sys.argv[0]`` is "-m".
    """
    if sys.argv[:1] != ["-m"]:
        return False
    after = [b for a, b in zip(sys.orig_argv, sys.orig_argv[1:], strict=False) if a == "-m"]
    return after[:1] == [__name__]


def _torch_will_call() -> bool:
    """Whether torch is being imported, here or in another thread, and calls ``_autoload`` at the end of that.

    To wait for the other thread would be a deadlock, since it will wait for this package. Python notices, and
    makes one of the two imports fail.
    """
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    return getattr(spec, "_initializing", False) and os.getenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1"


if not _is_command() and not _torch_will_call():
    _autoload()
