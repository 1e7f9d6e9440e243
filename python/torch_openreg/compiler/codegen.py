"""Code generation: Inductor's C++ kernels, and the Python function that launches them.

A kernel of the device is C++ as for the CPU. The differences: the kernel is launched on the current stream
(``kernels.device_kernel``), its call names the device, and buffers are allocated on the device. Kernels of host tensors
in the same graph run on the host, and check that they get no device tensor (``kernels.host_kernel``).
"""

import functools
from typing import Any, NoReturn

import torch
from torch._inductor import config
from torch._inductor.codegen.common import (
    DeviceOpOverrides,
    register_backend_for_device,
    register_device_op_overrides,
)
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.exc import InvalidCxxCompiler
from torch._inductor.virtualized import V

from torch_openreg._name import DEVICE_NAME

from .placement import is_on_host

KERNELS = f"{__package__}.kernels"
# The first line of a kernel's source. Two kernels with the same source may differ in the arguments that are on the host.
MARK = "// host scalars: "
CPU_LOADER = "async_compile.cpp_pybinding("


@functools.cache
def _check_cpp_compiler() -> None:
    """Inductor's own error does not say what needs a compiler, nor what to do."""
    try:
        get_cpp_compiler()
    except InvalidCxxCompiler as error:
        raise RuntimeError(
            f"torch.compile for the device '{DEVICE_NAME}' needs a C++ compiler, and none works of {config.cpp.cxx}. Install "
            "g++ (Debian, Ubuntu: apt-get install g++), or set CXX to a compiler before torch is imported. Without one, "
            'use torch.compile(backend="aot_eager")'
        ) from error


class OpenRegScheduling(CppScheduling):
    def __init__(self, scheduler: Any) -> None:
        _check_cpp_compiler()
        super().__init__(scheduler)

    def define_kernel(self, src_code: str, nodes: Any, kernel_args: Any = None) -> str:
        args = self.kernel_group.args if kernel_args is None else kernel_args
        _, call_args, arg_types = args.cpp_argdefs()
        on_host = [
            index
            for index, (name, arg_type) in enumerate(zip(call_args, arg_types, strict=True))
            if arg_type.endswith("*") and is_on_host(name)
        ]
        return super().define_kernel(f"{MARK}{on_host}\n{src_code}", nodes, kernel_args)


class _LaunchesKernels(PythonWrapperCodegen):
    """The parts of the wrapper that a graph and a subgraph share."""

    def write_header(self) -> None:
        super().write_header()
        self.imports.writeline(f"import {KERNELS} as {DEVICE_NAME}_kernels")
        self.header.writeline(f"empty_strided_{DEVICE_NAME} = {DEVICE_NAME}_kernels.empty_strided")

    def define_kernel(self, kernel_name: str, kernel_body: str, *args: Any, **kwargs: Any) -> None:
        if kernel_body.startswith(CPU_LOADER):
            arg_types, _, source = kernel_body.removeprefix(CPU_LOADER).partition(", r'''\n")
            mark, _, rest = source.partition("\n")
            loader = f"{DEVICE_NAME}_kernels.host_kernel(async_compile, {kernel_name!r}, {arg_types}"
            if mark.startswith(MARK):
                on_host = mark.removeprefix(MARK)
                loader = f"{DEVICE_NAME}_kernels.device_kernel(async_compile, {kernel_name!r}, {arg_types}, {on_host}"
                source = rest
            kernel_body = f"{loader}, r'''\n{source}"
        super().define_kernel(kernel_name, kernel_body, *args, **kwargs)

    def _generate_kernel_call_helper(
        self, kernel_name: str, call_args: Any, *, device: Any = None, **kwargs: Any
    ) -> None:
        device = device or V.graph.get_current_device_or_throw()
        if device.type == DEVICE_NAME:
            self.writeline(self.wrap_kernel_call(kernel_name, [*call_args, str(device.index)]))
        else:
            super()._generate_kernel_call_helper(kernel_name, call_args, device=device, **kwargs)

    # Launches and allocations name their device, so the current device does not matter. A guard is only written if the
    # program uses several streams: it also defines their names.
    def codegen_device_guard_enter(self, device_idx: int, num_streams: int = 1, *args: Any) -> None:
        self._guarded = num_streams > 1
        if self._guarded:
            super().codegen_device_guard_enter(device_idx, num_streams, *args)

    def codegen_device_guard_exit(self) -> None:
        if self._guarded:
            super().codegen_device_guard_exit()

    # C++ kernels are collected and written at the next flush; a kernel belongs to the stream of its nodes.
    def codegen_cuda_stream_enter(self, stream_idx: int) -> Any:
        V.graph.scheduler.flush()
        return super().codegen_cuda_stream_enter(stream_idx)

    def codegen_cuda_stream_exit(self) -> None:
        V.graph.scheduler.flush()
        super().codegen_cuda_stream_exit()

    def make_allocation(
        self,
        name: str,
        device: torch.device,
        dtype: torch.dtype,
        shape: Any,
        stride: Any,
        allocation_shape: Any = None,
        is_pinned: bool = False,
    ) -> str:
        if device.type != DEVICE_NAME:
            return super().make_allocation(name, device, dtype, shape, stride, allocation_shape, is_pinned)
        size = self.codegen_python_shape_tuple(shape)
        allocated = self.codegen_python_shape_tuple(shape if allocation_shape is None else allocation_shape)
        strides = self.codegen_python_shape_tuple(stride)
        line = f"{name} = empty_strided_{DEVICE_NAME}({allocated}, {strides}, {dtype}, {device.index})"
        return line if size == allocated else f"{line}.as_strided({size}, {strides})"


class OpenRegSubgraphWrapper(_LaunchesKernels, SubgraphPythonWrapperCodegen):
    pass


class OpenRegWrapper(_LaunchesKernels):
    @staticmethod
    def create(
        is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, partition_signatures: Any = None
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            return OpenRegSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return OpenRegWrapper()


class NoCppWrapper(PythonWrapperCodegen):
    @staticmethod
    def create(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"Inductor's C++ wrapper and AOTInductor do not support the device '{DEVICE_NAME}': torch's AOTInductor "
            "runtime accepts only cpu, cuda, xpu and mps. Use torch.compile without config.cpp_wrapper; to run an "
            "exported program, torch.compile its module"
        )


class NoFxWrapper(PythonWrapperCodegen):
    @staticmethod
    def create(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"Inductor's FX wrapper (config.fx_wrapper) supports only Triton kernels, and the kernels of '{DEVICE_NAME}' "
            "are C++. Use torch.compile without it"
        )


class OpenRegOpOverrides(DeviceOpOverrides):
    """Source text of device functions for the generated Python code."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"from {__package__}.device_interface import OpenRegInterface\n{name} = OpenRegInterface.get_raw_stream"

    def set_device(self, device_idx: int | str) -> str:
        return f"torch.{DEVICE_NAME}.set_device({device_idx})"

    def synchronize(self) -> str:
        return f"torch.{DEVICE_NAME}.synchronize()"

    def device_guard(self, device_idx: int | str) -> str:
        return f"torch.{DEVICE_NAME}.device({device_idx})"

    def current_stream(self) -> str:
        return f"torch.{DEVICE_NAME}.current_stream()"


def register_code_generation() -> None:
    from . import settings

    register_device_op_overrides(DEVICE_NAME, OpenRegOpOverrides())
    register_backend_for_device(
        DEVICE_NAME,
        OpenRegScheduling,
        OpenRegWrapper,
        NoCppWrapper,
        NoFxWrapper,
        device_custom_config=settings,  # type: ignore[arg-type]
    )
