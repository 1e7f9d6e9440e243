"""Fixtures of the distributed tests: ranks that live as long as the test process."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ranks import Ranks


@pytest.fixture(scope="session")
def two():
    with Ranks(2) as ranks:
        yield ranks


@pytest.fixture(scope="session")
def four():
    with Ranks(4) as ranks:
        yield ranks
