"""Makes PyTorch's test machinery treat the device as it treats CUDA. Call before a test file is imported."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable
from typing import Any

ONLY_FOR = "PYTORCH_TESTING_DEVICE_ONLY_FOR"


def with_device(devices: str | Iterable[str], name: str) -> list[str]:
    """A list of device types; if CUDA is in it, so is the device."""
    listed = [devices] if isinstance(devices, str) else list(devices)
    return [*listed, name] if "cuda" in listed and name not in listed else listed


def run_on_device() -> None:
    """Generic tests run on the device only; what is marked as CUDA's runs as well.

    `bypass_device_restrictions` would also admit what is marked as the CPU's or MPS's, which is about their own
    kernels and backends. So the lists of device types are extended, and nothing is bypassed.
    """
    os.environ[ONLY_FOR] = "privateuse1"
    os.environ["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"
    import torch
    from torch.testing._internal import common_device_type

    name = torch._C._get_privateuse1_backend_name()
    # Names the device at once: otherwise the first class of a file is named after the key, the others after it.
    common_device_type.PrivateUse1TestBase.setUpClass()

    only_on = common_device_type.onlyOn
    mark = only_on.__call__

    @functools.wraps(mark)
    def admit(self: Any, function: Any) -> Any:
        self.device_type = with_device(self.device_type, name)
        return mark(self, function)

    only_on.__call__ = admit

    bases = common_device_type.get_desired_device_type_test_bases

    @functools.wraps(bases)
    def admitted_bases(
        except_for: Any = None, only_for: Collection[str] | str | None = None, *args: Any, **kwargs: Any
    ) -> list[Any]:
        return bases(
            except_for, with_device(only_for, "privateuse1") if only_for else only_for, *args, **kwargs
        )

    common_device_type.get_desired_device_type_test_bases = admitted_bases


def pretend_to_be_cuda() -> None:
    """For translated files: the conditions under which CUDA's tests run hold for the device."""
    import torch
    from torch.testing._internal import common_cuda, common_utils

    # These policies look for leaks in, and change the streams of, torch.cuda itself.
    common_utils.TestCase.wrap_with_cuda_policy = lambda *_: None
    # The clock of `_sleep` runs at 1 GHz; PyTorch would measure it with events of torch.cuda.
    common_utils.get_cycles_per_ms = lambda: 1e6
    device = torch.get_device_module(torch._C._get_privateuse1_backend_name())
    several = device.device_count() > 1
    for module in (common_cuda, common_utils):
        for condition, holds in {
            "TEST_CUDA": True,
            "TEST_MULTIGPU": several,
            "TEST_CUDA_GRAPH": True,
            "TEST_CUDA_PYTHON_BINDINGS": False,
        }.items():
            if hasattr(module, condition):
                setattr(module, condition, holds)
