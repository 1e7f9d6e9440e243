"""Runs PyTorch's own tests on the device; see docs/upstream.md for the results.

`suite` names the files, `worker` runs some tests of one file in a process of its own, `runner` starts workers and
survives their crashes, `expected` holds the failures with a known reason, `report` writes the table.
"""
