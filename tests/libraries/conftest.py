"""Nothing is downloaded, and one thread is enough for models of this size."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest


@pytest.fixture(autouse=True)
def every_test_on_one_thread(one_thread):
    pass
