"""docs/core_operators.md says what tools/core_operators.py finds."""

import core_operators
import pytest


def test_the_table_of_core_operators_is_true():
    if core_operators.PAGE.made_with_another_torch():
        pytest.skip("the table was made with another torch, which decomposes otherwise")
    assert not core_operators.PAGE.is_old()
