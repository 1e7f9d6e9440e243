"""The outer package. It does not import torch, so it is whole whenever torch calls ``_autoload``."""

is_loaded = False  # set by torch_foo.torch, before that imports torch


def _autoload() -> None:
    """The ``torch.backends`` entry point."""
    if is_loaded:
        return  # torch_foo.torch is being imported, and it was that import which brought torch in
    import torch_foo.torch  # noqa: F401
