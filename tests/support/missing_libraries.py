"""What a test module says when its library is not installed."""

from types import ModuleType

import pytest


def library(name: str) -> ModuleType:
    return pytest.importorskip(name, reason=f"{name} is not installed: `make test-libraries` installs it")
