"""The program of a sweep of a test: runs pytest with the arguments. In a folder without other modules, since Python adds
the folder of a program to its path."""

import os
import sys

import pytest

sys.path.insert(1, os.getcwd())  # as `python -m pytest` does
sys.exit(pytest.main(sys.argv[1:]))
