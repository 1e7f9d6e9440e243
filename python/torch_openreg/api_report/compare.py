"""Compares what ``collect`` found in two versions of torch, as a Markdown page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Found = Mapping[str, Any]


def compare(old: Found, new: Found) -> str:
    """The page: what changed for an out-of-tree device."""
    title = f"# torch {old['version']} to {new['version']}, for an out-of-tree device\n"
    parts = [title, INTRODUCTION]
    for heading, lines in sections(old, new):
        parts += [f"## {heading}\n", *(lines or ["No change."]), ""]
    return "\n".join(parts).rstrip() + "\n"


INTRODUCTION = """\
Made by `python -m torch_openreg api-report` from the headers and modules of both versions; do not edit. A function of an
interface whose parameters changed is listed as removed and as added; names and defaults of parameters do not count.
"""


def sections(old: Found, new: Found) -> Iterator[tuple[str, list[str]]]:
    for interface, functions in new["interfaces"].items():
        yield interface, [*interface_changes(old["interfaces"].get(interface, {}), functions)]
    yield "Dispatch keys", [*changes(old["dispatch_keys"], new["dispatch_keys"])]
    yield "Operators", [*operator_changes(old["operators"], new["operators"])]
    yield "Public Python names", [*changes(old["public"], new["public"])]
    yield "Python names that this package uses", [*missing(old["used"], new["used"])]
    yield "Parameters of Python functions", [*parameter_changes(old["parameters"], new["parameters"])]


def changes(old: Iterable[str], new: Iterable[str]) -> Iterator[str]:
    before, after = set(old), set(new)
    yield from (f"- removed: `{name}`" for name in sorted(before - after))
    yield from (f"- added: `{name}`" for name in sorted(after - before))


def interface_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(old.keys() - new.keys()):
        yield f"- removed: `{name}`"
    for name in sorted(new.keys() - old.keys()):
        required = ", must be implemented" if new[name].endswith("= 0") else ""
        yield f"- added{required}: `{name}`"
    for name in sorted(old.keys() & new.keys()):
        if old[name] != new[name]:
            yield f"- changed: `{old[name]}` is now `{new[name]}`"


def parameter_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(old.keys() & new.keys()):
        if old[name] != new[name]:
            yield f"- `{name}({old[name]})` is now `{name}({new[name]})`"


def operator_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(old.keys() - new.keys()):
        yield f"- removed: `{name}`"
    for name in sorted(new.keys() - old.keys()):
        inferred = "" if new[name]["meta"] else ", without a Meta kernel"
        yield f"- added{inferred}: `{new[name]['schema']}`"
    for name in sorted(old.keys() & new.keys()):
        before, after = old[name], new[name]
        if before["schema"] != after["schema"]:
            yield f"- changed: `{before['schema']}` is now `{after['schema']}`"
        elif before["meta"] != after["meta"]:
            yield f"- {'gained' if after['meta'] else 'lost'} a Meta kernel: `{name}`"


def missing(old: Mapping[str, bool], new: Mapping[str, bool]) -> Iterator[str]:
    """Changes of the names that the same package uses: these need work before the new version is supported."""
    for name, exists in new.items():
        if old.get(name, False) and not exists:
            yield f"- removed: `{name}`"
        elif exists and not old.get(name, True):
            yield f"- added: `{name}`"
