"""python/torch_openreg/_C.pyi matches the extension module: the same names and parameters."""

import ast
import re
from pathlib import Path

import pytest

from torch_openreg import _C, _loader

STUB = Path(_loader.PACKAGE_DIR, "_C.pyi")


def public(names):
    return {name for name in names if not name.startswith("_")}


# Names that the other build has; see tests/test_cpu_fallback.py.
ABSENT = {"cpu_fallbacks"} if _C.HOST_ENGINE else {"op_rule_matches"}


@pytest.fixture(scope="module")
def stub():
    parsed = ast.parse(STUB.read_text())
    parsed.body = [node for node in parsed.body if getattr(node, "name", "") not in ABSENT]
    return parsed


def test_stub_and_module_have_the_same_names(stub):
    named = {node.name for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    named |= {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    assert public(named) == public(dir(_C))


def test_stub_and_module_functions_have_the_same_parameters(stub):
    """pybind11 writes the signature into the first line of the docstring: ``name(arg0: int, arg1: str) -> None``."""
    functions = [node for node in stub.body if isinstance(node, ast.FunctionDef)]
    taken = {node.name: len(node.args.posonlyargs) for node in functions}
    assert not [node.name for node in functions if node.args.args or node.args.kwonlyargs]
    found = {
        name: len(re.findall(r"\barg\d+: ", getattr(_C, name).__doc__.splitlines()[0])) for name in taken
    }
    assert taken == found


def test_stub_and_module_classes_have_the_same_members(stub):
    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
            assert public(members) == public(dir(getattr(_C, node.name))), node.name
