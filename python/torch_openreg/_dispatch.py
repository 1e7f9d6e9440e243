"""Where the dispatch keys of an operator lead, in words: ``python -m torch_openreg ops --dispatch``."""

import re
import sys
from typing import Any

from torch_openreg import _loader
from torch_openreg.ops import SUPPORT, as_rows, op_support

# In the order in which a call on the device meets them, then those that the engine borrows from.
KEYS = ("AutocastPrivateUse1", "AutogradPrivateUse1", "ADInplaceOrView", "PrivateUse1", "Meta", "CPU")
ALIASES = {
    "CompositeExplicitAutogradNonFunctional": "every backend's default that calls the operator's out form",
    "CompositeExplicitAutograd": "every backend's default, made of other operators",
    "CompositeImplicitAutograd": "made of other operators before autograd sees it",
}
KINDS = {
    "kernel": "a kernel of this key's own",
    "default backend kernel": "the default of every backend",
    "math kernel": "made of other operators",
    "autograd kernel": "autograd: notes the backward, then goes on",
    "backend fallback": "what this key does for every operator",
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
        as_rows(["<dispatch key", "<leads to", "<registered"], [*_keys(torch, name), *_aliases(torch, name)])
    )
    return 0


def _keys(torch: Any, name: str) -> list[list[str]]:
    lines = torch._C._dispatch_dump_table(name).splitlines()
    table = dict(line.split(": ", 1) for line in lines if ": " in line)
    return [[key, *_in_words(table.get(key, ""))] for key in KEYS]


def _in_words(entry: str) -> tuple[str, str]:
    """What the dispatcher's table says of a key, and where that was registered."""
    kind = re.search(r"\[([^]]+)\]$", entry)
    if kind is None:
        return "nothing: a call with this key raises", ""
    place = re.search(r"registered at (\S+)", entry)
    file = "/".join(place.group(1).split("/")[-2:]) if place else ""
    if entry.startswith("fallthrough"):
        return "nothing: goes on to the next key", file
    if not place:  # a kernel that was given a name when it was registered
        return entry.removesuffix(kind.group()).strip(), ""
    return KINDS.get(kind.group(1), kind.group(1)), file


def _aliases(torch: Any, name: str) -> list[list[str]]:
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return [[key, words, ""] for key, words in ALIASES.items() if has_kernel(name, key)]
