"""Random numbers.

The device has no generator of its own yet: its kernels are the host's and draw from the host's default
generator, so ``torch.manual_seed`` governs both.
"""

import torch


def manual_seed(seed: int) -> None:
    """Seeds the generator that the current device draws from."""
    torch.default_generator.manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices; ``torch.manual_seed`` calls this."""
    manual_seed(seed)
