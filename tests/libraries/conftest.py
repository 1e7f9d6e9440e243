"""No downloads, and one CPU thread, because the models are small."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest


@pytest.fixture(autouse=True)
def every_test_on_one_thread(one_thread):
    pass
