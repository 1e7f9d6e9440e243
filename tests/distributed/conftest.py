"""Fixtures of the distributed tests: ranks that live as long as the test process."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpu import NO_GPU
from ranks import Ranks


@pytest.fixture(scope="session")
def two():
    with Ranks(2) as ranks:
        yield ranks


@pytest.fixture(scope="session")
def four():
    with Ranks(4) as ranks:
        yield ranks


@pytest.fixture
def run_without_gpu(request):
    """Runs a function in the ranks ``two`` or ``four``, or in new ranks that see no GPU if there is one."""

    def run(name, function, *args):
        if not torch.cuda.is_available():
            return request.getfixturevalue(name).run(function, *args)
        with Ranks({"two": 2, "four": 4}[name], **NO_GPU) as ranks:
            return ranks.run(function, *args)

    return run
