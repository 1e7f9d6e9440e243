"""An out-of-tree PyTorch device. ``import torch`` loads it; see docs/guide/autoload.md.

Importing this package does not raise if the device or torch does not work: it issues one
``DeviceUnavailableWarning`` with the cause. ``python -m torch_openreg doctor`` reports the details.
"""

import os
import sys
from types import ModuleType

__all__ = ["DeviceUnavailableError", "DeviceUnavailableWarning", "__version__"]


def _autoload() -> ModuleType | None:
    """The ``torch.backends`` entry point: loads the device once and returns its module.

    It must be defined above the imports: if this package is imported before torch, the import of torch calls this
    function while this package is partially initialized.

    On a machine with a GPU, ``import torch`` does not load the device, and this returns None; ``import torch_openreg``
    loads it. See docs/guide/autoload.md.
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
    """Removes this package from sys.modules, so that a later import by the program executes it again."""
    for name in [name for name in sys.modules if name == __name__ or name.startswith(f"{__name__}.")]:
        del sys.modules[name]


from torch_openreg._unavailable import DeviceUnavailableError, DeviceUnavailableWarning  # noqa: E402

try:
    from torch_openreg._build import VERSION as __version__
except ImportError:  # a source tree without an installation; the loader reports it
    __version__ = "unknown"


def _is_command() -> bool:
    """Whether Python is starting ``python -m torch_openreg``, whose commands load the device themselves.

    The doctor must work even if loading the device crashes the process. ``sys.argv[0]`` is "-m" only while Python
    locates the module of ``-m``.
    """
    if sys.argv[:1] != ["-m"]:
        return False
    after = [b for a, b in zip(sys.orig_argv, sys.orig_argv[1:], strict=False) if a == "-m"]
    return after[:1] == [__name__]


def _torch_will_call() -> bool:
    """Whether an import of torch is in progress, in any thread, and will call ``_autoload`` at its end.

    Waiting for another thread's import of torch would deadlock, since that thread will wait for this package. Python
    detects the deadlock and fails one of the two imports.
    """
    return _is_importing("torch") and os.getenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1"


_imported_by_torch = _torch_will_call()
if not _is_command() and not _imported_by_torch:
    _autoload()
