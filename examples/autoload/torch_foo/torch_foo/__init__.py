"""The outer package. It does not import torch, so it is fully initialized when torch calls ``_autoload``."""

is_loaded = False  # set by torch_foo.torch before it imports torch


def _autoload() -> None:
    """The ``torch.backends`` entry point."""
    if is_loaded:
        return  # torch_foo.torch is being imported and has imported torch
    import torch_foo.torch  # noqa: F401
