"""Operators for the device that are written in Python, with torch.library.

Importing this package defines them: ``torch.ops.openreg_library``. Nothing of ours imports it. Each module
shows one way, for a backend author to copy:

- ``softcap``: a function, by ``torch.library.custom_op`` and its decorators. The usual way.
- ``accumulate``: an operator that writes to its argument, by ``define`` and ``impl`` of schema and kernel.

The namespace is that of the operators and does not follow the device's name.
"""

from torch_openreg.library.accumulate import accumulate_
from torch_openreg.library.softcap import softcap

__all__ = ["accumulate_", "softcap"]
