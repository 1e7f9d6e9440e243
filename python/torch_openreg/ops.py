"""``python -m torch_openreg ops``: what becomes of each ATen operator on the device.

The answer is the engine's own (``csrc/host_engine/op_support.h``); this module only prints it.
"""

import argparse
import json
import os
import runpy
import sys
import textwrap
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from torch_openreg import _loader

HELP = "say what becomes of each ATen operator on the device"

SUPPORT = {
    "own": "a kernel of the device's own",
    "borrowed": "a CPU kernel on the device's memory, launched",
    "waits": "a CPU kernel on the device's memory, for which the host waits",
    "view": "the same memory seen in another way: nothing is launched",
    "composite": "PyTorch makes it of other operators",
    "missing": "no kernel: a call raises",
}


class Operator(NamedTuple):
    name: str
    support: str
    depends_on_data: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="?", default="", help="only operators whose name contains this")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--markdown", action="store_true", help="print the table that is docs/operators.md")
    parser.add_argument(
        "--model", metavar="FILE.py:FUNCTION", help="call the function and list the operators it used"
    )
    parser.add_argument("--dispatch", metavar="OPERATOR", help="say where each dispatch key of it leads")


def run(arguments: argparse.Namespace) -> int:
    module = _loader.load()
    if not module.is_available():
        print(f"the device is not available; python -m {_loader.PACKAGE} doctor says why", file=sys.stderr)
        return 1
    if arguments.dispatch:
        from torch_openreg import _dispatch

        return _dispatch.explain(arguments.dispatch)
    if arguments.model:
        return _run_model(arguments.model, as_json=arguments.json)
    operators = [operator for operator in op_support() if arguments.pattern in operator.name]
    if arguments.json:
        print(json.dumps(_as_json(operators), indent=1))
    else:
        print(as_markdown(operators) if arguments.markdown else _as_text(operators))
    return 0


def op_support(name_space: str = "aten") -> list[Operator]:
    from torch_openreg import _C

    return [Operator(*row) for row in _C.op_support(name_space)]


def as_rows(header: list[str], rows: list[list[str]]) -> str:
    """Columns, each to the left or the right as the first character of its header says: ``">calls"``."""
    names = [name[1:] for name in header]
    widths = [max(len(row[i]) for row in [names, *rows]) for i in range(len(names))]
    lines = []
    for row in [names, *rows]:
        cells = zip(row, header, widths, strict=True)
        lines.append("  ".join(f"{cell:{name[0]}{width}}" for cell, name, width in cells).rstrip())
    return "\n".join(lines)


def _counts(operators: list[Operator]) -> dict[str, int]:
    found = Counter(operator.support for operator in operators)
    return {support: found[support] for support in SUPPORT}


def _as_json(operators: list[Operator]) -> dict[str, Any]:
    return {"counts": _counts(operators), "operators": [operator._asdict() for operator in operators]}


def _as_text(operators: list[Operator]) -> str:
    rows = as_rows(["<operator", "<support"], [[operator.name, operator.support] for operator in operators])
    counts = [[support, str(n), SUPPORT[support]] for support, n in _counts(operators).items()]
    return f"{rows}\n\n{as_rows(['<support', '>operators', '<meaning'], counts)}"


# ---- The published table


def as_markdown(operators: list[Operator]) -> str:
    version = _loader._minor(_loader.TORCH_VERSION)
    counts = _counts(operators)
    rows = [f"| `{support}` | {counts[support]} | {meaning} |" for support, meaning in SUPPORT.items()]
    on_any_device = [op for op in operators if op.support == "waits" and op.depends_on_data]
    only_here = [op for op in operators if op.support == "waits" and not op.depends_on_data]
    parts = [
        "# Operators\n",
        f"What becomes of each of the {len(operators)} ATen operators of torch {version} on the device.\n"
        "`python -m torch_openreg ops --markdown` prints this page; a test compares it.\n",
        "\n".join(["| support | operators | meaning |", "| --- | --- | --- |", *rows]) + "\n",
        _section("Waits on any device", "Results that depend on data.", on_any_device),
        _section("Waits here", "A kernel on a chip would not: these are not reported as waits.", only_here),
        *(
            _section(support.capitalize(), "", [op for op in operators if op.support == support])
            for support in ("missing", "own", "view", "borrowed")
        ),
    ]
    return "\n".join(parts).rstrip()


def _section(title: str, words: str, operators: list[Operator]) -> str:
    """Names without "aten::", the overloads of one operator together."""
    overloads: dict[str, list[str]] = {}
    for operator in operators:
        name, _, overload = operator.name.removeprefix("aten::").partition(".")
        overloads.setdefault(name, []).append(overload)
    names = [
        f"`{name}`" if found == [""] else f"`{name}` ({', '.join(one or 'default' for one in found)})"
        for name, found in overloads.items()
    ]
    text = textwrap.fill(", ".join(names) or "None.", 116, break_long_words=False, break_on_hyphens=False)
    return f"## {title}\n\n{words + chr(10) * 2 if words else ''}{text}\n"


# ---- What a model needs


def _run_model(where: str, as_json: bool) -> int:
    function = _find(where)
    import torch

    device = getattr(torch, _loader.DEVICE_NAME)
    failed = False
    with device.record_operator_stats():
        try:
            function()
            device.synchronize()
        except Exception:
            traceback.print_exc()
            failed = True
    used = device.operator_stats()
    spaces = {name.partition("::")[0] for name in used}
    support = {operator.name: operator.support for space in spaces for operator in op_support(space)}
    records = {name: {"support": support.get(name, "own")} | used[name]._asdict() for name in used}
    print(json.dumps(records, indent=1) if as_json else _model_as_text(records))
    return 1 if failed else 0


def _find(where: str) -> Callable[[], object]:
    path, _, name = where.rpartition(":")
    if not os.path.isfile(path) or not name:
        raise SystemExit(f"--model is '{where}': give a file and a function in it, as model.py:train")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    function = runpy.run_path(path, run_name="__model__").get(name)
    if not callable(function):
        raise SystemExit(f"there is no function '{name}' in {path}")
    return function


def _model_as_text(records: dict[str, dict[str, Any]]) -> str:
    numbers = {
        "calls": ">calls",
        "launches": ">launches",
        "cache_hits": ">hits",
        "cache_misses": ">misses",
        "waits": ">waits",
        "bytes": ">bytes",
    }

    def row(name: str, support: str, some: list[dict[str, Any]]) -> list[str]:
        counts = [str(sum(record[number] for record in some)) for number in numbers]
        return [name, support, *counts, f"{sum(record['host_seconds'] for record in some) * 1e3:.3f}"]

    by_calls = sorted(records.items(), key=lambda item: -item[1]["calls"])
    rows = [row(name, record["support"], [record]) for name, record in by_calls]
    rows.append(row("total", "", list(records.values())))
    return as_rows(["<operator", "<support", *numbers.values(), ">host ms"], rows)
