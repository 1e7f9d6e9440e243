"""``torch.compile`` on the device: Inductor with its C++ code generation.

Inductor asks the device's module for its parts at the first compilation, which calls ``register``. So ``import torch``
imports neither Dynamo nor Inductor. See docs/guide/compiler.md.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_registered = False


def register() -> None:
    """Registers the device with Dynamo and Inductor. Imports both."""
    global _registered
    if _registered:
        return
    from . import patches
    from .codegen import register_code_generation
    from .device_interface import register_device_interface

    register_device_interface()
    register_code_generation()
    patches.apply(patches.AT_REGISTRATION)
    _registered = True


def register_for_inductor() -> None:
    """As ``register``, when Inductor asks. It ignores an AttributeError or RuntimeError, and would continue without the
    device."""
    try:
        register()
    except Exception as error:
        raise ImportError(f"{__package__} could not be registered with Inductor: {error}") from error


def compile_graph(
    gm: "torch.fx.GraphModule",
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """``torch.compile(backend="openreg")``, the same as Inductor. An entry point of the package names this function."""
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    settings = (list_mode_options(mode) if mode else {}) | (options or {})
    return compile_fx(gm, example_inputs, config_patches=settings or None)
