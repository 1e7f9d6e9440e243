"""The device for Dynamo and Inductor: devices, streams, events and properties."""

from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device

from torch_openreg import _C
from torch_openreg import openreg as module
from torch_openreg._name import DEVICE_NAME


class OpenRegInterface(DeviceInterface):
    device = module.device
    Event = module.Event
    Stream = module.Stream

    class Worker:
        """For the processes that compile kernels. Nothing of the device is compiled in a process: C++ compiles in threads."""

        @staticmethod
        def set_device(device: int) -> None:
            module.set_device(device)

        @staticmethod
        def current_device() -> int:
            return module.current_device()

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            return module.get_device_properties(device)

    current_device = staticmethod(module.current_device)
    set_device = staticmethod(module.set_device)
    device_count = staticmethod(module.device_count)
    is_available = staticmethod(module.is_available)
    stream = staticmethod(module.stream)
    current_stream = staticmethod(module.current_stream)
    set_stream = staticmethod(module.set_stream)
    synchronize = staticmethod(module.synchronize)
    get_device_properties = staticmethod(module.get_device_properties)
    memory_allocated = staticmethod(module.memory_allocated)

    @staticmethod
    def exchange_device(device: int) -> int:
        return _C.exchange_device(device)

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        return _C.maybe_exchange_device(device)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        module.set_stream(
            torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
        )

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return module.current_stream(device_idx).native_handle

    @staticmethod
    def get_compute_capability(device: Any = None) -> int:
        major, minor = module.get_device_capability(device)
        return 10 * major + minor

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return module.is_bf16_supported(including_emulation)

    @staticmethod
    def is_dtype_supported(dtype: torch.dtype, including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def is_triton_capable(device: Any = None) -> bool:
        return False


def register_device_interface() -> None:
    register_interface_for_device(DEVICE_NAME, OpenRegInterface)
    for index in range(module.device_count()):
        register_interface_for_device(f"{DEVICE_NAME}:{index}", OpenRegInterface)
