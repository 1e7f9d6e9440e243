"""Rank processes for tests: they start once, form a group, and then run functions of the test modules."""

import contextlib
import datetime
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIMIT = 120  # seconds for one function


class RankError(AssertionError):
    """An exception of a rank, with its traceback."""


def _serve(
    rank: int,
    size: int,
    store: str,
    backend: str | None,
    timeout: float,
    environment: dict[str, str],
    pipe: Connection,
) -> None:
    os.environ.update(environment)
    sys.path.insert(0, str(HERE))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.openreg.set_device(rank % torch.openreg.device_count())
    dist.init_process_group(
        backend,
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=timeout),
    )
    pipe.send(("ready", None))
    while True:
        task = pipe.recv()
        if task is None:
            break
        function, args = task
        try:
            pipe.send(("value", function(rank, size, *args)))
        except BaseException:
            pipe.send(("error", traceback.format_exc()))
    dist.destroy_process_group()
    pipe.send(("ended", None))


class Ranks:
    """``size`` processes with a group. ``run`` calls a function in all of them and returns the results by rank."""

    def __init__(
        self, size: int, backend: str | None = None, timeout: float = 60, **environment: str
    ) -> None:
        self.size = size
        # The server imports torch once and forks the ranks, before any of them uses the device.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch.distributed"])
        self.folder = tempfile.TemporaryDirectory()
        store = os.path.join(self.folder.name, "store")
        self.pipes: list[Connection] = []
        self.processes = []
        environment = {"OPENREG_DEVICE_COUNT": "4", **environment}
        for rank in range(size):
            mine, theirs = context.Pipe()
            process = context.Process(
                target=_serve,
                args=(rank, size, store, backend, timeout, environment, theirs),
                daemon=True,
            )
            process.start()
            theirs.close()
            self.pipes.append(mine)
            self.processes.append(process)
        self._receive("ready")

    def _receive(self, expected: str, ranks: range | list[int] | None = None) -> list[Any]:
        values, errors = [], []
        for rank in range(self.size) if ranks is None else ranks:
            if not self.pipes[rank].poll(LIMIT):
                errors.append(f"rank {rank} has not answered within {LIMIT} s")
                continue
            try:
                kind, value = self.pipes[rank].recv()
            except EOFError:
                errors.append(f"rank {rank} has ended with exit code {self.processes[rank].exitcode}")
                continue
            values.append(value)
            if kind != expected:
                errors.append(f"rank {rank}: {value}")
        if errors:
            raise RankError("\n".join(errors))
        return values

    def start(self, function: Callable[..., Any], *args: Any) -> None:
        for pipe in self.pipes:
            pipe.send((function, args))

    def results(self, ranks: list[int] | None = None) -> list[Any]:
        return self._receive("value", ranks)

    def run(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        self.start(function, *args)
        return self.results()

    def close(self) -> None:
        for pipe in self.pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process in self.processes:
            process.join(10)
            if process.is_alive():
                process.kill()
        self.folder.cleanup()

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
