"""Python imports this module at the start of a process if the folder is on PYTHONPATH: see `distributed_tests`."""

from upstream import distributed_tests

distributed_tests.install()
