"""The imaginary chip foo. ``import torch`` loads it: ``torch.ones(3, device="foo")``. Does not import torch."""

from pathlib import Path


def driver_path() -> Path:
    """The shared library of the driver; the entry point of the group ``torch_openreg.drivers``."""
    (found,) = Path(__file__).parent.glob("driver.*.so")
    return found
