"""Patches PyTorch's test utilities to treat the device like CUDA. Call before a test file is imported."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable
from typing import Any

ONLY_FOR = "PYTORCH_TESTING_DEVICE_ONLY_FOR"


def with_device(devices: str | Iterable[str], name: str) -> list[str]:
    """The list of device types, with the device added if it contains CUDA."""
    listed = [devices] if isinstance(devices, str) else list(devices)
    return [*listed, name] if "cuda" in listed and name not in listed else listed


def run_on_device() -> None:
    """Runs device-generic tests on the device only, including tests that are marked as CUDA-only. Has an effect once.

    `bypass_device_restrictions` would also run tests that are marked as CPU-only or MPS-only, which test the kernels
    of these devices. So the lists of device types are extended instead.
    """
    os.environ[ONLY_FOR] = "privateuse1"
    os.environ["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"
    import torch
    from torch.testing._internal import common_device_type

    name = torch._C._get_privateuse1_backend_name()
    only_on = common_device_type.onlyOn
    mark = only_on.__call__
    if hasattr(mark, "__wrapped__"):
        return
    # Sets the device name now. Otherwise the first test class of a file is named after PrivateUse1, and only the
    # others after the device.
    common_device_type.PrivateUse1TestBase.setUpClass()

    @functools.wraps(mark)
    def patched_call(self: Any, function: Any) -> Any:
        self.device_type = with_device(self.device_type, name)
        return mark(self, function)

    only_on.__call__ = patched_call

    bases = common_device_type.get_desired_device_type_test_bases

    @functools.wraps(bases)
    def patched_bases(
        except_for: Any = None, only_for: Collection[str] | str | None = None, *args: Any, **kwargs: Any
    ) -> list[Any]:
        return bases(
            except_for, with_device(only_for, "privateuse1") if only_for else only_for, *args, **kwargs
        )

    common_device_type.get_desired_device_type_test_bases = patched_bases


def pretend_to_be_cuda() -> None:
    """For translated files: sets the conditions of CUDA tests, such as TEST_CUDA, for the device."""
    import torch
    from torch.testing._internal import common_cuda, common_utils

    # These policies check torch.cuda for leaks and change its streams.
    common_utils.TestCase.wrap_with_cuda_policy = lambda *_: None
    # The cycles of `_sleep` are 1 ns; PyTorch would measure them with torch.cuda events.
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
    from upstream import cuda_bindings

    cuda_bindings.install(device.memory._C, device)
