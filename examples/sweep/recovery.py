"""Runs the work of a program again after an error of the device, and prints a digest of the result.

A device must work as before after each error that it has reported. A lost device refuses all work until it is reset.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable

import torch

ATTEMPTS = 3


def digest(tensors: Iterable[torch.Tensor]) -> str:
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().cpu().numpy().tobytes())
    return sha.hexdigest()[:16]


def run(work: Callable[[], str]) -> None:
    """The last error is raised."""
    for attempt in range(ATTEMPTS):
        if attempt == ATTEMPTS - 1:
            torch.openreg.reset()
        try:
            result = work()
        except RuntimeError as error:
            if attempt == ATTEMPTS - 1:
                raise
            print(f"again, after: {error}", file=sys.stderr)
            continue
        print("digest:", result)
        return
