"""``mode="reduce-overhead"``: compiled functions are captured into graphs of the device and replayed.

Inductor's graph trees (torch/_inductor/cudagraph_trees.py) own the memory of the captures: outputs of a replay are valid
until the next, and inputs that are not parameters are copied into the graph. That module is written for CUDA. Here it is
executed again for this device: the name ``torch`` inside of it has this device as ``cuda`` and the functions of ``torch._C``
that only builds with CUDA have, and ``is_cuda`` of a tensor is that of this device. With a GPU, the module stays as it is,
and compiled functions of this device run without graphs.
"""

import contextlib
import functools
import inspect
import re
from types import ModuleType
from typing import Any

import torch

from torch_openreg import _C
from torch_openreg import openreg as module
from torch_openreg._name import DEVICE_NAME
from torch_openreg._torch_versions import HAS_GRAPHS

from .placement import is_on_host, node_is_on_device


def is_supported() -> bool:
    return HAS_GRAPHS and not torch.cuda.is_available()


def _variant(module: ModuleType, **changes: Any) -> ModuleType:
    """A module with the attributes of ``module``, and other values for some. A copy, so that access costs no call."""
    made = ModuleType(module.__name__)
    vars(made).update(vars(module) | changes)
    vars(made)["__getattr__"] = functools.partial(getattr, module)  # for attributes that are set later
    return made


class _Routes:
    """Allocation of this thread from a private pool."""

    def __init__(self) -> None:
        self._routes: dict[tuple[int, tuple[int, int]], int] = {}

    def begin(self, device: int, pool: tuple[int, int]) -> None:
        self._routes[device, pool] = _C.begin_thread_route(device, pool)

    def end(self, device: int, pool: tuple[int, int]) -> None:
        _C.end_route(self._routes.pop((device, pool)))


def _torch_for_this_device() -> ModuleType:
    routes = _Routes()
    functions = _variant(
        torch._C,
        # Memory pools
        _cuda_beginAllocateCurrentThreadToPool=routes.begin,
        _cuda_endAllocateToPool=routes.end,
        _cuda_releasePool=_C.release_pool,
        _cuda_getCheckpointState=_C.get_checkpoint_state,
        _cuda_setCheckpointPoolState=_C.set_checkpoint_pool_state,
        _cuda_checkPoolLiveAllocations=_C.check_pool_live_allocations,
        _cuda_cudaCachingAllocator_raw_delete=_C.raw_delete,
        # Storages
        _construct_CUDA_Tensor_From_Storage_And_Metadata=_C.tensor_of_storage,
        _tensors_data_ptrs_at_indices_equal=_C.have_data_ptrs,
        _has_Standard_Deleter=_C.owns_memory,
        _free_And_Remove_DeleterFn=_C.free_memory,
        _set_storage_access_error_msg=_C.set_tensor_error,
        _set_storage_data_ptr_access_error_msg=_C.set_storage_error,
        # Libraries and settings that the device does not have
        _cuda_clearCublasWorkspaces=lambda: None,
        _cuda_get_conv_benchmark_empty_cache=lambda: False,
        _cudnn_set_conv_benchmark_empty_cache=lambda enabled: None,
        _cuda_isHistoryEnabled=lambda: True,  # so that the program's recording does not change
    )
    return _variant(torch, cuda=_variant(module, CUDAGraph=module.OpenRegGraph), _C=functions)


def use_this_device() -> None:
    """Executes the graph trees of Inductor for this device."""
    from torch._inductor import cudagraph_trees

    source = re.sub(r"\.is_cuda\b", f".is_{DEVICE_NAME}", inspect.getsource(cudagraph_trees))
    exec(compile(source, inspect.getfile(cudagraph_trees), "exec"), vars(cudagraph_trees))
    vars(cudagraph_trees)["torch"] = _torch_for_this_device()
    # Conditional nodes of CUDA graphs. The device has none: Inductor leaves torch.cond outside of the captures.
    for name in ("ControlFlowOpWarmupDispatchMode", "CUDAGraphCaptureControlFlowOpDispatchMode"):
        if hasattr(cudagraph_trees, name):
            setattr(cudagraph_trees, name, contextlib.nullcontext)


def reason_not_to_capture(scheduler: Any, node: Any) -> str | None:
    """What Inductor does not check, in addition. A kernel gets a scalar on the host by value, so a replay would have the
    value of the capture. A loop reads its condition on the host, and some operators run synchronously. And only tensors
    can be passed to a captured part, so a tuple and its elements stay together."""
    from torch._inductor import dependencies, ir

    if isinstance(node.node, ir.WhileLoop):
        return "WhileLoop ops"
    reads = [read.name for read in node.read_writes.reads if not isinstance(read, dependencies.WeakDep)]
    if any(is_on_host(name) for name in reads):
        return "arguments on the host"
    if isinstance(node.node, ir.FallbackKernel):
        if isinstance(node.node.op_overload, torch._ops.OpOverload) and _synchronizes(node.node.op_overload):
            return f"{node.node.op_overload} runs synchronously"
        users = [use.node for buffer in node.get_outputs() for use in buffer.users]
        elements = [user for user in users if isinstance(getattr(user, "node", None), ir.MultiOutput)]
        if not all(node_is_on_device(element) for element in elements):
            return "results on the host"
    if isinstance(node.node, ir.MultiOutput):
        made = [scheduler.name_to_buf[name].defining_op for name in reads if name in scheduler.name_to_buf]
        return next(filter(None, map(scheduler.should_partition, made)), None)
    return None


@functools.cache
def _synchronous_operators() -> frozenset[str]:
    return frozenset(
        name
        for name, support, depends_on_data in _C.op_support("aten")
        if depends_on_data or support in ("cpu_sync", "missing")
    )


def _synchronizes(op: torch._ops.OpOverload) -> bool:
    """Operators of other libraries have the tag ``cudagraph_unsafe`` if they do. An operator without results is a check, which
    reads its arguments."""
    if op.namespace != "aten":
        return False
    return op.name() in _synchronous_operators() or not (op._schema.returns or op._schema.is_mutable)
