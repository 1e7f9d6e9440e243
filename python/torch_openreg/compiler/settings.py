"""What determines the generated code besides Inductor's own settings: part of the key of Inductor's caches.

Code from a disk cache calls this package, so another version or build must not use it; and it contains the
instructions of the CPU on which it was generated.
"""

import hashlib
import pathlib
import sys

import torch
from torch.utils._config_module import install_config_module

from torch_openreg._build import VERSION


def _hash_of_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(pathlib.Path(__file__).parent.glob("*.*")):
        if path.suffix in (".py", ".h"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


version: str = VERSION
sources: str = _hash_of_sources()
cpu_capability: str = torch.backends.cpu.get_cpu_capability()

install_config_module(sys.modules[__name__])
