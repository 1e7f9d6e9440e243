"""Skips a test module whose library is not installed."""

from types import ModuleType

import pytest


def library(name: str) -> ModuleType:
    return pytest.importorskip(name, reason=f"{name} is not installed: `make test-libraries` installs it")
