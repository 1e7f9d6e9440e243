"""Patches PyTorch's distributed test utilities to use the device and its backend, as they use CUDA and NCCL.

Most tests start one process for each rank, and these import everything again. So the patches must be applied in every
process: the runner adds the folder `startup` to PYTHONPATH, Python imports `sitecustomize` from there when it starts,
and that calls `install`. A module is patched after its import and before a test imports names from it.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import os
import re
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

from upstream import rank_processes
from upstream.device_tests import run_on_device
from upstream.translate import translate_for_device

STARTUP = Path(__file__).resolve().parent / "startup"
# PyTorch's own machines for these tests have four GPUs. Tests of more ranks are skipped or run on the CPU.
RANKS = 4
# A variable: whether `rank_processes` starts the ranks.
FORKED_RANKS = "UPSTREAM_FORKED_RANKS"
# Seconds after which a rank whose test failed ends.
GRACE = 3.0

T = TypeVar("T")


def environment(file: Path, limit: float) -> dict[str, str]:
    """Variables for workers of a distributed file. `limit`: seconds after which a test ends its ranks."""
    return {
        # A test that asks for the parent of a process expects itself, and not the server.
        FORKED_RANKS: str(int("os.getppid()" not in file.read_text())),
        "OPENREG_DEVICE_COUNT": str(RANKS),
        "OMP_NUM_THREADS": "1",  # as torchrun; ranks would compete for the cores
        # For tests that another program of PyTorch would start.
        "BACKEND": "occl",
        "WORLD_SIZE": str(RANKS),
        "TEMP_DIR": tempfile.gettempdir(),
        "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(int(limit)),
    }


def device_name() -> str:
    import torch

    return torch._C._get_privateuse1_backend_name()


def backend_name() -> str:
    """The backend of the device in torch.distributed."""
    import torch.distributed as dist

    return dist.get_default_backend_for_device(device_name())


def set_device(rank: int) -> None:
    import torch

    torch.accelerator.set_device_index(rank % torch.accelerator.device_count())


def enough_devices(count: int) -> bool:
    import torch

    return torch.accelerator.device_count() >= count


def unchanged(function: T) -> T:
    return function


def before(method: Callable[..., Any], action: Callable[[Any], None]) -> Callable[..., Any]:
    """The method, with `action` called on the object or class first."""

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        action(self)
        return method(self, *args, **kwargs)

    return wrapper


def end_poisoned_ranks(test_class: Any) -> None:
    """Kills the ranks of a class whose last test failed, so that the next test starts new ones and is not skipped."""
    if test_class.poison_pill:
        for process in test_class.processes:
            process.kill()
            process.join()
        test_class.poison_pill = test_class._processes_spawned = False


def options_of_the_backend() -> type:
    """In the place of ``ProcessGroupNCCL.Options``: takes every attribute."""
    from torch._C._distributed_c10d import Backend

    class Options(Backend.Options):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(backend_name())
            vars(self).update(attributes)

    return Options


def patch_common_distributed(module: Any) -> None:
    name, backend = device_name(), backend_name()
    module.c10d.ProcessGroupNCCL = SimpleNamespace(Options=options_of_the_backend())
    # For tests that require some version.
    module.torch._C._nccl_version = lambda: 2 << 32 | 30 << 16
    module.torch._C._nccl_version_suffix = lambda: b""
    module.HAS_ACCELERATOR = True
    module.ACCELERATOR_DIST_BACKENDS.append(backend)
    module.DDP_RANK_DEVICES.append(name)
    for backends in module.DistTestCases.skip_collective.values():  # those of CPU tensors
        if "nccl" in backends:
            backends.add(backend)
    features = module.DistTestCases.backend_feature
    for feature in ("gpu", name, "ddp", "subgroup"):
        features.setdefault(feature, set()).add(backend)
    module.at_least_x_gpu = enough_devices
    module.skip_if_no_gpu = unchanged
    module.requires_accelerator_dist_backend = lambda backends=None: unchanged
    module.init_multigpu_helper = lambda world_size, _: {rank: [rank % RANKS] for rank in range(world_size)}
    skip = module.skip_if_lt_x_gpu
    module.skip_if_lt_x_gpu = lambda count, *, allow_cpu=False: (
        unchanged if enough_devices(count) else skip(count)
    )

    base = module.DistributedTestBase
    backend_of, create = base.backend, base.create_pg

    def create_pg(self: Any, device: str, world_size: int | None = None) -> Any:
        import torch

        group = create(self, device, world_size)
        if self.backend(device) == backend:
            torch.set_default_device(torch.device(name, self.rank))
            set_device(self.rank)
        return group

    base.backend = lambda self, device: backend if name in str(device) else backend_of(self, device)
    base.create_pg = create_pg

    continuous = module.MultiProcContinuousTest
    run = continuous._run_test_given_id.__func__

    def run_test(cls: Any, test: str, **kwargs: Any) -> None:
        try:
            run(cls, test, **kwargs)
        except unittest.SkipTest:  # PyTorch reports it as a failure; the status of the exit is a skip
            sys.exit(module.TEST_SKIPS["generic"].exit_code)
        except Exception:
            # The other ranks would wait for this one until their timeout. It ends after it has sent the error.
            timer = threading.Timer(GRACE, os._exit, [1])
            timer.daemon = True
            timer.start()
            raise

    continuous._run_test_given_id = classmethod(run_test)
    continuous.setUp = before(continuous.setUp, lambda self: end_poisoned_ranks(type(self)))
    continuous.tearDownClass = classmethod(before(continuous.tearDownClass.__func__, end_poisoned_ranks))


def patch_multi_threaded_pg(module: Any) -> None:
    """Ranks are threads here, and one of them moves the data of all, without waiting for the streams of the others."""
    join = module.Collective.join

    def synchronized_join(self: Any, rank: int, data: Any) -> Any:
        import torch

        torch.accelerator.synchronize()
        if rank == 0:
            work = self._collective.work

            def synchronized_work(data: Any) -> None:
                work(data)
                torch.accelerator.synchronize()

            self._collective.work = synchronized_work
        return join(self, rank, data)

    module.Collective.join = synchronized_join


def patch_common_fsdp(module: Any) -> None:
    module.DEVICE_TYPE = device_name()
    module.DISTRIBUTED_BACKEND = backend_name()
    module.DEVICE_COUNT = module.FSDPTestContinuous.world_size = RANKS
    module.TEST_XPU = True  # selects the branches for a device that is not CUDA; they name no device


def patch_common_dtensor(module: Any) -> None:
    base = module.DTensorTestBase
    torch_init_pg = base.init_pg

    def init_pg(self: Any, eager_init: bool, backend: str | None = None) -> None:
        import torch
        import torch.distributed as dist

        if self.device_type != device_name():
            torch_init_pg(self, eager_init, backend)
            return
        set_device(self.rank)
        dist.init_process_group(
            backend or self.backend,
            world_size=self.world_size,
            rank=self.rank,
            init_method=f"file://{self.file_name}",
            device_id=torch.device(self.device_type, self.rank) if eager_init else None,
        )

    base.init_pg = init_pg


def patch_sharded_tensor(module: Any) -> None:
    """The backend is an argument here, and by default NCCL."""
    with_comms = module.with_comms
    base = module.ShardedTensorTestBase

    def patched(function: Any = None, init_rpc: bool = True, backend: str = "nccl") -> Any:
        return with_comms(function, init_rpc, backend_name() if backend == "nccl" else backend)

    def init_pg(self: Any, backend: str = "nccl") -> None:
        import torch.distributed as dist

        dist.init_process_group(
            backend_name() if backend == "nccl" else backend,
            world_size=self.world_size,
            rank=self.rank,
            init_method=f"file://{self.file_name}",
        )
        set_device(self.rank)

    module.with_comms = patched
    base.init_pg = init_pg


def patch_common_cuda(module: Any) -> None:
    module.TEST_MULTIGPU = True


INTERNAL = "torch.testing._internal"
# A module with tests, which a test file imports.
TRANSLATED = f"{INTERNAL}.distributed.distributed_test"
PATCHES: dict[str, Callable[[Any], None]] = {
    f"{INTERNAL}.common_cuda": patch_common_cuda,
    f"{INTERNAL}.common_device_type": lambda _: run_on_device(),
    f"{INTERNAL}.common_distributed": patch_common_distributed,
    f"{INTERNAL}.common_fsdp": patch_common_fsdp,
    f"{INTERNAL}.distributed._tensor.common_dtensor": patch_common_dtensor,
    f"{INTERNAL}.distributed._shard.sharded_tensor": patch_sharded_tensor,
    f"{INTERNAL}.distributed.multi_threaded_pg": patch_multi_threaded_pg,
}


class Patcher(importlib.abc.MetaPathFinder):
    """Calls a function with a module after the module was imported. `patches`: the functions by module name."""

    def __init__(self, patches: dict[str, Callable[[Any], None]]) -> None:
        self._patches = patches

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        patch = self._patches.get(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if patch else None
        if patch is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_patch(module: ModuleType) -> None:
            execute(module)
            patch(module)

        spec.loader.exec_module = execute_and_patch  # type: ignore[method-assign]
        return spec


class Translator(importlib.abc.MetaPathFinder):
    """Imports one module with the names of CUDA and NCCL replaced."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name == TRANSLATED else None
        if spec is not None and spec.origin is not None:
            spec.loader = TranslatedFile(name, spec.origin)
        return spec


class TranslatedFile(importlib.machinery.SourceFileLoader):
    def get_code(self, name: str) -> Any:
        source = translate_for_device(Path(self.path).read_text(), distributed=True)
        return compile(source, self.path, "exec", dont_inherit=True)


def install() -> None:
    """Patches the test utilities when they are imported, and the start of processes."""
    if os.environ.get(FORKED_RANKS) == "1":
        rank_processes.install()
    sys.meta_path[:0] = [Patcher(PATCHES), Translator()]


_OF_A_RANK = re.compile(r"(?:Process|Thread) \d+ exited with|Exception in worker process:")
_END_OF_ERROR = re.compile(r"\n(?:Exception raised from |To execute this test)|\n\n")


def error_of_a_rank(message: str) -> str:
    """The message with the error of the first rank that failed in front of it, without its stack."""
    parts = _OF_A_RANK.split(message, maxsplit=2)
    if len(parts) < 2:
        return message
    stack = parts[1].rpartition("Traceback (most recent call last):")[2]
    lines = stack.splitlines()
    start = next((i for i, line in enumerate(lines) if i and line and not line.startswith(" ")), None)
    if start is None:
        return message
    error = _END_OF_ERROR.split("\n".join(lines[start:]), maxsplit=1)[0]
    return f"{error.strip()}\n{message}"
