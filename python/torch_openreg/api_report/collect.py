"""Collects the interfaces of torch that an out-of-tree device uses, from the installed headers and modules.

Runs as a script in the environment of the torch version, and writes JSON: only the standard library and torch are
imported. The device itself is not loaded.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# What a device implements, and the headers that declare it.
INTERFACES = {
    "Device guard": ["c10/core/impl/DeviceGuardImplInterface.h"],
    "Hooks": ["ATen/detail/AcceleratorHooksInterface.h", "ATen/detail/PrivateUse1HooksInterface.h"],
    "Device allocator": ["c10/core/Allocator.h", "c10/core/CachingDeviceAllocator.h"],
    "Host allocator": ["ATen/core/CachingHostAllocator.h"],
    "Generator": ["c10/core/GeneratorImpl.h"],
    "Graph": ["ATen/core/GraphImplInterface.h"],
    "Storage": ["c10/core/StorageImpl.h"],
    "c10d backend": ["torch/csrc/distributed/c10d/Backend.hpp", "torch/csrc/distributed/c10d/Work.hpp"],
    "Profiler": ["torch/csrc/profiler/stubs/base.h"],
}
DISPATCH_KEYS = "c10/core/DispatchKey.h"

# Modules whose public names devices provide or call.
MODULES = (
    "torch.accelerator",
    "torch.amp",
    "torch.cuda",
    "torch.distributed",
    "torch.utils.backend_registration",
    "torch.utils.dlpack",
    "torch.Event",
    "torch.Generator",
    "torch.Stream",
)


def without_comments(text: str) -> str:
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", " ", text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", " ", text, flags=re.MULTILINE)


def declaration(text: str, start: int) -> str:
    """The text of a declaration up to its body, initializer list or semicolon."""
    depth = 0
    for position in range(start, len(text)):
        character = text[position]
        depth += (character in "([") - (character in ")]")
        if depth == 0 and (
            character in ";{" or (character == ":" and text[position - 1 : position + 2].count(":") == 1)
        ):
            return " ".join(text[start:position].split())
    return ""


def split_parameters(text: str) -> list[str]:
    """Splits at commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "(<[{") - (character in ")>]}")
        if character == "," and depth == 0:
            parts.append(text[begin:position])
            begin = position + 1
    return [part for part in [*parts, text[begin:]] if part.strip()]


def parameter_type(text: str) -> str:
    """The type of a parameter, without its name and its default."""
    declared = " ".join(text.split("=")[0].split())
    named = re.fullmatch(r"(.*[\s&*>])(\w+)", declared)
    alone = named is None or named.group(1).strip() in ("const", "unsigned", "struct")
    return declared if alone or named is None else named.group(1).strip()


def signature(declared: str) -> tuple[str, str] | None:
    """`name(types)` and the whole declaration, both without parameter names; None if it is not a function."""
    name = re.search(r"([~\w:]+)\s*\(", declared)
    if name is None:
        return None
    depth, end = 0, name.end() - 1
    for end in range(name.end() - 1, len(declared)):
        depth += (declared[end] == "(") - (declared[end] == ")")
        if depth == 0:
            break
    types = ", ".join(map(parameter_type, split_parameters(declared[name.end() : end])))
    called = f"{name.group(1)}({types})"
    rest = declared[end + 1 :].strip()
    kept = [word for word in ("const", "noexcept", "= 0") if re.search(rf"(?:^|\s){word}(?:$|\s)", rest)]
    returns = declared[: name.start()].strip()
    return called, " ".join([returns, called, *kept]).strip()


def virtual_functions(text: str) -> dict[str, str]:
    """The declarations of virtual functions, by `class::name(types)`."""
    text = without_comments(text)
    found: dict[str, str] = {}
    scopes: list[tuple[str, int]] = []  # classes that contain the position, with the depth of their braces
    depth = 0
    token = re.compile(
        r"\b(?:class|struct)\s+(?:\w+\s+)*?(\w+)\s*(?:final\s*)?(?::[^;{]*)?\{|[{}]|\bvirtual\b"
    )
    for match in token.finditer(text):
        if match.group(1):
            depth += 1
            scopes.append((match.group(1), depth))
        elif match.group() == "{":
            depth += 1
        elif match.group() == "}":
            if scopes and scopes[-1][1] == depth:
                scopes.pop()
            depth -= 1
        elif (parsed := signature(declaration(text, match.end()))) and scopes and "~" not in parsed[0]:
            found[f"{scopes[-1][0]}::{parsed[0]}"] = parsed[1]
    return found


def exported_functions(text: str) -> dict[str, str]:
    """The declarations of functions outside of classes that libraries export, by `name(types)`."""
    text = without_comments(text)
    exports = re.finditer(r"\b(?:C10_API|TORCH_API)\b(?!\s+(?:class|struct))", text)
    return dict(parsed for match in exports if (parsed := signature(declaration(text, match.end()))))


def dispatch_keys(text: str) -> list[str]:
    """The keys of the header. Macros add one key of each functionality for each backend component."""
    body = re.search(r"enum class DispatchKey[^{]*\{(.*?)\};", without_comments(text), re.DOTALL)
    names = re.findall(r"^\s*(\w+)\s*(?:=[^,]*)?,", body.group(1), re.MULTILINE) if body else []
    return sorted(set(names))


def operators(torch: Any) -> dict[str, dict[str, Any]]:
    """The operators of aten by name and overload, with their schemas and whether shapes can be inferred."""
    has_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    registered = set(torch._C._dispatch_get_all_op_names())
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        if name.startswith("aten::") and name in registered:
            found[name] = {"schema": str(schema), "meta": bool(has_kernel(name, "Meta"))}
    return found


def public_names(torch: Any) -> Iterator[str]:
    for dotted in MODULES:
        place: Any = torch
        try:
            for part in dotted.split(".")[1:]:
                place = getattr(place, part, None) or importlib.import_module(dotted)
        except ImportError:
            continue
        names = getattr(place, "__all__", None) or [name for name in dir(place) if not name.startswith("_")]
        yield from (f"{dotted}.{name}" for name in names)
    yield from (f"torch.{name}" for name, value in vars(torch).items() if isinstance(value, torch.dtype))


def used_names(package: Path) -> set[str]:
    """The dotted names of torch that the Python code of a device uses."""
    used: set[str] = set()
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.ImportFrom)
                and not node.level
                and (node.module or "").split(".")[0] == "torch"
            ):
                used |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Attribute) and (name := dotted_name(node)).startswith("torch."):
                used.add(name)
    return used


def dotted_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        outer = dotted_name(node.value)
        return f"{outer}.{node.attr}" if outer else ""
    return node.id if isinstance(node, ast.Name) else ""


def find(name: str) -> Any:
    """The object with a dotted name. Raises ImportError if there is none."""
    parts = name.split(".")
    place: Any = importlib.import_module(parts[0])
    for count, part in enumerate(parts[1:], 2):
        if not hasattr(place, part):
            importlib.import_module(".".join(parts[:count]))
        place = getattr(place, part)
    return place


def exists(name: str) -> bool:
    try:
        find(name)
    except ImportError:
        return False
    return True


def parameters(names: Iterable[str]) -> dict[str, str]:
    """The names of the parameters of functions of torch that are written in Python, such as "(stream, *, copy)"."""
    found = {}
    warnings.simplefilter("ignore")  # deprecated names
    for name in names:
        try:
            function = find(name)
            declared = inspect.signature(function) if inspect.isroutine(function) else None
        except (ImportError, TypeError, ValueError):
            continue
        if declared is not None:
            plain = [
                parameter.replace(annotation=parameter.empty, default=parameter.empty)
                for parameter in declared.parameters.values()
            ]
            found[name] = str(declared.replace(parameters=plain, return_annotation=declared.empty))[1:-1]
    return found


def collect(package: Path) -> dict[str, Any]:
    import torch

    include = Path(torch.__file__).parent / "include"
    interfaces = {}
    for interface, headers in INTERFACES.items():
        texts = [(include / header).read_text() for header in headers if (include / header).is_file()]
        interfaces[interface] = {
            name: declared
            for text in texts
            for name, declared in {**virtual_functions(text), **exported_functions(text)}.items()
        }
    public = sorted({*public_names(torch)})
    used = sorted(used_names(package))
    return {
        "version": torch.__version__.split("+")[0],
        "interfaces": interfaces,
        "dispatch_keys": sorted(
            {*dispatch_keys((include / DISPATCH_KEYS).read_text()), *torch._C.DispatchKey.__members__}
        ),
        "operators": operators(torch),
        "public": public,
        "used": {name: exists(name) for name in used},
        "parameters": parameters(sorted({*public, *used})),
    }


if __name__ == "__main__":
    json.dump(collect(Path(sys.argv[1])), sys.stdout)
