"""Runs PyTorch's tests on the device; see docs/upstream.md for the results.

`suite` lists the files, `worker` runs tests of one file in a separate process, `runner` starts workers and restarts
them after a crash, `expected` has the failures with a known reason, `report` writes the table. `distributed_tests` and
`rank_processes` are for the tests of torch.distributed.
"""
