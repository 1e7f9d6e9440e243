"""docs/core_operators.md is the output of tools/core_operators.py."""

import core_operators
import pytest


def test_core_operators_page_is_up_to_date():
    if core_operators.PAGE.made_with_another_torch():
        pytest.skip("the page was generated with another version of torch, whose decompositions differ")
    assert not core_operators.PAGE.is_old()
