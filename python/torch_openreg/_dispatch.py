"""Describes what each dispatch key of an operator resolves to: ``python -m torch_openreg ops --dispatch``."""

import re
import sys
from typing import Any

from torch_openreg import _loader
from torch_openreg.ops import SUPPORT, as_rows, op_support

# In the order of dispatch on the device, then the keys whose kernels the host engine uses.
KEYS = ("AutocastPrivateUse1", "AutogradPrivateUse1", "ADInplaceOrView", "PrivateUse1", "Meta", "CPU")
ALIASES = {
    "CompositeExplicitAutogradNonFunctional": "default for every backend; calls the out form of the operator",
    "CompositeExplicitAutograd": "default for every backend; calls other operators",
    "CompositeImplicitAutograd": "composite: calls other operators, above autograd",
}
KINDS = {
    "kernel": "a kernel for this key",
    "default backend kernel": "the default for every backend",
    "math kernel": "composite: calls other operators",
    "autograd kernel": "autograd: records the backward, then redispatches",
    "backend fallback": "the fallback of this key for every operator",
}


def explain(name: str) -> int:
    import torch

    found = {operator.name: operator for operator in op_support(name.partition("::")[0])}
    if name not in found:
        near = [one for one in found if one.partition(".")[0] == name.partition(".")[0]]
        hint = f"there are {', '.join(near)}" if near else "a name looks like aten::add.Tensor"
        print(f"there is no operator '{name}': {hint}", file=sys.stderr)
        return 1
    base, _, overload = name.partition(".")
    print(torch._C._get_schema(base, overload))
    support = found[name].support
    print(f"On {_loader.DEVICE_NAME}: {support}, that is, {SUPPORT[support]}.\n")
    print(
        as_rows(
            ["<dispatch key", "<resolves to", "<registered at"], [*_keys(torch, name), *_aliases(torch, name)]
        )
    )
    return 0


def _keys(torch: Any, name: str) -> list[list[str]]:
    lines = torch._C._dispatch_dump_table(name).splitlines()
    table = dict(line.split(": ", 1) for line in lines if ": " in line)
    return [[key, *_describe(table.get(key, ""))] for key in KEYS]


def _describe(entry: str) -> tuple[str, str]:
    """Description of an entry of the dispatch table, and the file and line of its registration."""
    kind = re.search(r"\[([^]]+)\]$", entry)
    if kind is None:
        return "no kernel: a call with this key raises", ""
    place = re.search(r"registered at (\S+)", entry)
    file = "/".join(place.group(1).split("/")[-2:]) if place else ""
    if entry.startswith("fallthrough"):
        return "fallthrough: skipped", file
    if not place:  # a kernel that was registered with a debug name
        return entry.removesuffix(kind.group()).strip(), ""
    return KINDS.get(kind.group(1), kind.group(1)), file


def _aliases(torch: Any, name: str) -> list[list[str]]:
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return [[key, text, ""] for key, text in ALIASES.items() if has_kernel(name, key)]
