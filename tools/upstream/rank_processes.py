"""Starts the processes of ranks by a fork of a server that has imported torch, instead of a new interpreter.

Tests start processes with the method "spawn". Each would import torch and the test utilities again, which takes several
seconds of CPU time, more than most tests. A forked process is the same to the test: it has the variables that the test
set before, imports the test file, and ends as an interpreter ends.
"""

from __future__ import annotations

import atexit
import ctypes
import multiprocessing
import multiprocessing.context
import multiprocessing.spawn
import os
import sys
from typing import Any

# What most ranks import. None of these starts a thread or uses the device, so that the server can fork.
PRELOADED = (
    "pytest",
    "torch.testing._internal.common_distributed",
    "torch.testing._internal.common_fsdp",
    "torch.testing._internal.distributed._tensor.common_dtensor",
)


def set_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


class Environment:
    """The variables of this process. When it is unpickled, they become the variables of that process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return set_environment, (dict(os.environ),)


def install() -> None:
    """Makes "spawn" a fork of the server, which starts with the first process. Also needed in the server."""
    spawn: Any = multiprocessing.spawn
    preparation_data, run = spawn.get_preparation_data, spawn._main

    def data_with_environment(name: str) -> dict[str, Any]:
        # Unpickled first, before the process imports the test file.
        return {"environment": Environment(), **preparation_data(name)}

    def run_and_finalize(*args: Any) -> None:
        """A forked process would end without the functions of `atexit` and the destructors of C++ objects.

        Py_Exit would also take the Python heap apart, which takes seconds after a fork.
        """
        status = run(*args)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        ctypes.PyDLL(None).exit(status)

    spawn.get_preparation_data = data_with_environment
    spawn._main = run_and_finalize
    context: Any = multiprocessing.context
    context.SpawnProcess._Popen = staticmethod(context.ForkServerProcess._Popen)
    multiprocessing.set_forkserver_preload(list(PRELOADED))
