"""python/torch_openreg/_C.pyi says what the extension module has: the same names, the same parameters."""

import ast
import re
from pathlib import Path

import pytest

from torch_openreg import _C

STUB = Path(_C.__file__).with_name("_C.pyi")


def public(names):
    return {name for name in names if not name.startswith("_")}


@pytest.fixture(scope="module")
def stub():
    return ast.parse(STUB.read_text())


def test_the_stub_has_the_names_of_the_module(stub):
    named = {node.name for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert public(named) == public(dir(_C))


def test_functions_of_the_stub_take_what_those_of_the_module_take(stub):
    """pybind11 writes the signature into the first line of the docstring: ``name(arg0: int, arg1: str) -> None``."""
    functions = [node for node in stub.body if isinstance(node, ast.FunctionDef)]
    taken = {node.name: len(node.args.posonlyargs) for node in functions}
    assert not [node.name for node in functions if node.args.args or node.args.kwonlyargs]
    found = {
        name: len(re.findall(r"\barg\d+: ", getattr(_C, name).__doc__.splitlines()[0])) for name in taken
    }
    assert taken == found


def test_classes_of_the_stub_have_the_members_of_those_of_the_module(stub):
    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
            assert public(members) == public(dir(getattr(_C, node.name))), node.name
