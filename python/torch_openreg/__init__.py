"""A PyTorch device that lives outside PyTorch's tree. ``import torch`` finds it; see docs/guide/autoload.md.

Importing this package never raises for want of a working device or of torch: one
``DeviceUnavailableWarning`` says what is wrong, and ``python -m torch_openreg doctor`` says more.
"""

import os
import sys
from types import ModuleType

__all__ = ["DeviceUnavailableError", "DeviceUnavailableWarning", "__version__"]


def _autoload() -> ModuleType | None:
    """The ``torch.backends`` entry point: loads the device, once, and returns its module.

    Stands above every import of ours: when this package is imported before torch, torch's own import calls
    this function on a package that is only half executed.

    On a machine with a GPU, ``import torch`` does not load the device, and None is returned; see
    docs/guide/autoload.md. A program that imports this package gets it.
    """
    from torch_openreg import _loader

    if _is_importing("torch") and not _is_importing(__name__) and _loader.leaves_accelerator():
        if _imported_by_torch:
            _forget()
        return None
    return _loader.load()


def _is_importing(name: str) -> bool:
    return getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False)


def _forget() -> None:
    """As if torch had not imported this package, so that a program's own import of it is its first."""
    for name in [name for name in sys.modules if name == __name__ or name.startswith(f"{__name__}.")]:
        del sys.modules[name]


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
    return _is_importing("torch") and os.getenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1"


_imported_by_torch = _torch_will_call()
if not _is_command() and not _imported_by_torch:
    _autoload()
