"""The table of rules that depend on an operator's name (csrc/host_engine/ops/op_rules.cpp)."""

import pytest
import torch

from torch_openreg import _C
from torch_openreg._torch_versions import RELEASE, release

RULES = _C.op_rule_matches()


def test_table_has_rules():
    assert len(RULES) > 300


@pytest.mark.parametrize(
    ("pattern", "reason", "version", "matches"), RULES, ids=lambda value: str(value)[:40]
)
def test_rule_matches_an_operator_and_has_a_reason(pattern: str, reason: str, version: str, matches: int):
    if version.startswith("before "):
        if release(version.removeprefix("before ")) <= RELEASE:
            pytest.skip(f"for torch {version}")
        version = version.removeprefix("before ")
    assert matches > 0, f"no operator of torch {torch.__version__} matches {pattern}: remove the rule"
    assert len(reason) > 15
    assert release(version) >= (2, 11)
