"""docs/core_operators.md says what tools/core_operators.py finds."""

from pathlib import Path

import pytest
import torch
from interpreter import python

ROOT = Path(__file__).resolve().parent.parent


def test_the_table_of_core_operators_is_true():
    text = (ROOT / "docs" / "core_operators.md").read_text()
    if f"with torch {torch.__version__.partition('+')[0]};" not in text:
        pytest.skip("the table was made with another torch, which decomposes otherwise")
    python(str(ROOT / "tools" / "core_operators.py"), "--check")
