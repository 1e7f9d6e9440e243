"""Example operators for the device in Python, with torch.library.

Importing this package registers them in ``torch.ops.openreg_library``. torch_openreg itself does not import it. Each
module shows one API:

- ``softcap``: a functional operator, with ``torch.library.custom_op`` and its decorators. The usual way.
- ``accumulate``: an operator that mutates its argument, with ``torch.library.define`` and ``impl``.

The namespace does not depend on the device's name.
"""

from torch_openreg.library.accumulate import accumulate_
from torch_openreg.library.softcap import softcap

__all__ = ["accumulate_", "softcap"]
