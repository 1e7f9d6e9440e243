"""Changes to torch for compiled functions, all of them.

Each function changes one place and states the reason and the versions of torch that need it. Those of ``AT_IMPORT`` are for
tracing and fake tensors, and are applied when the device is loaded; they must not import Dynamo or Inductor. Those of
``AT_REGISTRATION`` are for Inductor: most are places that ask whether a device is the CPU and mean whether its code is C++.
``_since`` names the first version of torch with the place that a patch changes. ``original`` returns what a patch has replaced; tests/test_compiler_patches.py uses it to check that torch still needs
each patch.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses import fake_impls
from torch.utils import _pytree as pytree

from torch_openreg._name import DEVICE_NAME
from torch_openreg._torch_versions import RELEASE

from .placement import node_is_on_device

Patch = Callable[[], None]
AT_IMPORT: dict[str, Patch] = {}
AT_REGISTRATION: dict[str, Patch] = {}
SINCE: dict[str, tuple[int, int]] = {}  # the first torch that needs a patch; default: the oldest supported
_originals: dict[tuple[str, str], Any] = {}


def apply(patches: dict[str, Patch]) -> None:
    for name, patch in patches.items():
        if is_for_this_torch(name):
            patch()


def is_for_this_torch(name: str) -> bool:
    return SINCE.get(name, RELEASE) <= RELEASE


def original(owner: Any, name: str) -> Any:
    """The attribute of a module or class before the patch."""
    return _originals[owner.__name__, name]


def _at_import(function: Patch) -> Patch:
    AT_IMPORT[function.__name__] = function
    return function


def _at_registration(function: Patch) -> Patch:
    AT_REGISTRATION[function.__name__] = function
    return function


def _since(major: int, minor: int) -> Callable[[Patch], Patch]:
    def decorate(function: Patch) -> Patch:
        SINCE[function.__name__] = (major, minor)
        return function

    return decorate


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replaces an attribute with ``make`` of it. Has no effect if this version of torch does not have it."""
    if (before := inspect.getattr_static(owner, name, None)) is not None:
        _originals[owner.__name__, name] = before
        setattr(owner, name, functools.wraps(before)(make(before)))


def _is_device(x: Any) -> bool:
    from torch._inductor import ir

    return ir.get_device_type(x) == DEVICE_NAME


@_at_import
def layout_of_fake_results() -> None:
    """torch 2.11 to 2.15. The fake convolution assumes that an unknown device returns contiguous tensors. The device runs
    CPU kernels, which keep channels last; compiled code that relies on the wrong strides fails. These operators return
    what they return on the CPU."""
    aten = torch.ops.aten
    for op in (aten.convolution.default, aten.convolution_backward.default):
        before = fake_impls.op_implementations_dict.get(op)
        _originals["op_implementations_dict", str(op)] = before
        fake_impls.op_implementations_dict[op] = functools.partial(_fake_as_cpu, before)


def _fake_as_cpu(before: Callable[..., Any] | None, mode: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    devices = {
        x.device
        for x in pytree.tree_leaves((args, kwargs))
        if isinstance(x, torch.Tensor) and x.device.type == DEVICE_NAME
    }
    if not devices:
        return NotImplemented if before is None else before(mode, op, *args, **kwargs)

    def like(x: Any, device: torch.device) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=device)

    with mode:
        args, kwargs = pytree.tree_map(lambda x: like(x, torch.device("cpu")), (args, kwargs))
        return pytree.tree_map(lambda x: like(x, min(devices, key=str)), op(*args, **kwargs))


@_at_import
def random_state_of_checkpoints() -> None:
    """torch 2.11 to 2.15. The operators with which checkpointing saves and restores the random state know a fixed list
    of devices, and fail for others."""
    from torch._higher_order_ops.utils import registered_hop_fake_fns
    from torch._prims import rng_prims
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, track_tensor_tree

    key = torch._C.DispatchKey
    save, run = rng_prims.run_and_save_rng_state, rng_prims.run_with_rng_state
    _originals["rng_prims", "save"] = save.py_kernels[key.BackendSelect]

    def is_ours(args: Any, kwargs: Any) -> bool:
        found = rng_prims.get_device(args, kwargs)
        if found is None:  # before torch 2.13, it knows a fixed list of devices
            devices = [arg.device for arg in args if isinstance(arg, torch.Tensor)]
            return any(device.type == DEVICE_NAME for device in devices)
        return bool(found == DEVICE_NAME)

    def choose(ours: Callable[..., Any], others: Callable[..., Any], skipped: int) -> Callable[..., Any]:
        """The first ``skipped`` arguments are not those of the operator."""
        return lambda *args, **kwargs: (ours if is_ours(args[skipped:], kwargs) else others)(*args, **kwargs)

    def save_real(op: Any, *args: Any, **kwargs: Any) -> Any:
        return _device_module().get_rng_state(), op(*args, **kwargs)

    def run_real(state: torch.Tensor, op: Any, *args: Any, **kwargs: Any) -> Any:
        before = _device_module().get_rng_state()
        _device_module().set_rng_state(state.cpu())
        try:
            return op(*args, **kwargs)
        finally:
            _device_module().set_rng_state(before)

    def save_fake(op: Any, *args: Any, **kwargs: Any) -> Any:
        return torch.empty(16, dtype=torch.uint8), op(*args, **kwargs)

    def save_traced(mode: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        result = save_fake(op, *args, **kwargs)
        proxies = pytree.tree_map(mode.tracer.unwrap_proxy, ((op, *args), kwargs))
        node = mode.tracer.create_proxy("call_function", save, *proxies)
        return track_tensor_tree(result, node, constant=None, tracer=mode.tracer)

    for op, real, skipped in ((save, save_real, 1), (run, run_real, 2)):
        op.py_impl(key.PrivateUse1)(real)
        op.py_kernels[key.BackendSelect] = choose(real, op.py_kernels[key.BackendSelect], skipped)
        op._dispatch_cache.clear()
    traced = save.python_key_table
    traced[ProxyTorchDispatchMode] = choose(save_traced, traced[ProxyTorchDispatchMode], 2)
    if save in registered_hop_fake_fns:
        registered_hop_fake_fns[save] = choose(save_fake, registered_hop_fake_fns[save], 1)
    else:

        def in_mode(mode: Any, *args: Any, **kwargs: Any) -> Any:
            with mode:
                return save_fake(*args, **kwargs)

        traced[FakeTensorMode] = choose(in_mode, traced[FakeTensorMode], 2)


def _device_module() -> Any:
    return getattr(torch, DEVICE_NAME)


@_at_registration
def cpp_backend() -> None:
    """torch 2.12 to 2.15. A device that is not in a fixed list is assumed to have CUDA's backend, Triton. C++ code
    generation then fails an assertion. Modules import the function by name, so it is replaced in each."""
    from torch._inductor import scheduler, utils
    from torch._inductor.codegen import common
    from torch._inductor.kernel import mm_common

    def make(before: Callable[..., str]) -> Callable[..., str]:
        def get_current_backend(device_type: str | None = None) -> str:
            from torch._inductor.virtualized import V

            device_type = device_type or V.graph.get_current_device_or_throw().type
            return "cpp" if device_type == DEVICE_NAME else before(device_type)

        return get_current_backend

    for module in (utils, common, scheduler, mm_common):
        _replace(module, "get_current_backend", make)


@_at_registration
def cpp_fusion() -> None:
    """torch 2.11 to 2.15. The scheduler treats nodes that are not on the CPU as nodes of a GPU, whose loops have
    another form; fusion then raises TypeError."""
    from torch._inductor import scheduler

    def make(before: Callable[..., bool]) -> Callable[..., bool]:
        return lambda self: before(self) or node_is_on_device(self)

    _replace(scheduler.BaseSchedulerNode, "is_cpu", make)


@_at_registration
def cpp_loops() -> None:
    """torch 2.11 to 2.15. Decisions about loops that are good for vectorized C++ are made only for the CPU. Without
    them, RMS norm with rotary embedding takes three times as long."""
    from torch._inductor import ir

    _replace(ir, "is_cpu", lambda before: lambda x: before(x) or _is_device(x))


@_at_registration
def pointwise_device() -> None:
    """torch 2.11 to 2.15. The device of ``a + b`` is that of the first argument on a GPU, else that of ``a``. If ``a``
    is a number on the host, a host kernel would get device memory. ``is_gpu`` has no other use in this module."""
    from torch._inductor import lowering

    _replace(lowering, "is_gpu", lambda before: lambda device: before(device) or device == DEVICE_NAME)


@_at_registration
def stream_guard() -> None:
    """torch 2.12 to 2.15. Only GPUs get a guard, which defines the streams that the program uses. Without it,
    ``torch.Stream`` in a compiled function raises NameError."""
    from torch._inductor import scheduler

    _replace(
        scheduler, "device_need_guard", lambda before: lambda device: before(device) or device == DEVICE_NAME
    )


@_at_registration
def order_of_events() -> None:
    """torch 2.11 to 2.15. C++ kernels are collected and written before the next call of an operator, but not if that has
    no device, as those of events and streams. An event would then be recorded before the kernels that precede it."""
    from torch._inductor import scheduler

    def make(before: Callable[..., None]) -> Callable[..., None]:
        def codegen_extern_call(self: Any, node: Any) -> None:
            if node.get_device() is None:
                self.flush()
            before(self, node)

        return codegen_extern_call

    _replace(scheduler.Scheduler, "codegen_extern_call", make)


@_at_registration
@_since(2, 13)
def argmax_of_permuted() -> None:
    """torch 2.13 to 2.15. The index of argmax in a permuted tensor is computed only for Triton and the CPU; others get
    a wrong index."""
    from torch._inductor import lowering

    def make(before: Callable[..., Any]) -> Callable[..., Any]:
        def _make_reduction_inner(x: Any, **kwargs: Any) -> Any:
            if not _is_device(x):
                return before(x, **kwargs)
            return _as_cpu(before, x, **kwargs)

        return _make_reduction_inner

    _replace(lowering, "_make_reduction_inner", make)


@_at_registration
@_since(2, 13)
def two_step_variance() -> None:
    """torch 2.13 to 2.15. The CPU has its own threshold below which a variance is two sums instead of Welford's
    algorithm, which vectorizes badly."""
    from torch._inductor import config, lowering

    def make(before: Callable[..., bool]) -> Callable[..., bool]:
        def use_two_step_variance(x: Any, *args: Any, **kwargs: Any) -> bool:
            if not _is_device(x):
                return before(x, *args, **kwargs)
            threshold = config.cpp.use_two_step_variance_threshold
            with config.patch(unroll_reductions_threshold=threshold):
                return before(x, *args, **kwargs)

        return use_two_step_variance

    _replace(lowering, "use_two_step_variance", make)


@_at_registration
def concatenation() -> None:
    """torch 2.11 to 2.15. On a GPU, concatenation is a pointwise kernel with masked loads, which do not vectorize in
    C++. The CPU writes each input to its place."""
    from torch._inductor import config, lowering

    limits = ("max_pointwise_cat_inputs", "max_complex_pointwise_cat_inputs")  # torch 2.11 has only the first
    as_cpu = {name: 0 for name in limits if hasattr(config, name)}

    def make(before: Callable[..., Any]) -> Callable[..., Any]:
        def cat(inputs: Any, dim: int = 0) -> Any:
            if not inputs or not _is_device(inputs[0]):
                return before(inputs, dim)
            with config.patch(as_cpu):
                return before(inputs, dim)

        return cat

    _replace(lowering, "cat", make)
    for op in (torch.ops.aten.cat, torch.ops.aten.cat.default):
        if op in lowering.lowerings:
            lowering.lowerings[op] = functools.wraps(lowering.lowerings[op])(make(lowering.lowerings[op]))


@_at_registration
@_since(2, 13)
def padding() -> None:
    """torch 2.13 to 2.15. On a GPU, padding becomes a concatenation, which is slower in C++."""
    from torch._inductor import lowering

    _replace(
        lowering,
        "_pad_as_cat",
        lambda before: lambda x, *args, **kwargs: None if _is_device(x) else before(x, *args, **kwargs),
    )


@_at_registration
def scatter_sum() -> None:
    """torch 2.11 to 2.15. With several threads, C++ code for a sum in scatter_reduce fails an assertion if all elements
    go to one place. The CPU, and only the CPU, calls the operator instead."""
    from torch._inductor import lowering

    def make(before: Callable[..., bool]) -> Callable[..., bool]:
        def use_scatter_fallback(*args: Any) -> bool:
            return before(*("cpu" if arg == DEVICE_NAME else arg for arg in args))

        return use_scatter_fallback

    _replace(lowering, "use_scatter_fallback", make)


@_at_registration
def scalars_on_the_host() -> None:
    """torch 2.11 to 2.15. A kernel gets a tensor without dimensions on the host by value. An element of a larger tensor
    can arrive as that tensor and an index, which fails. And ``mode="reduce-overhead"`` must not capture a kernel with such
    a value. These are copied to the device before. The pass that does so for CUDA joins scalars of all dtypes into one
    tensor, and changes the device of results."""
    from torch._inductor.fx_passes import post_grad

    from .host_scalars import copy_to_device

    def make(before: Callable[[torch.fx.Graph], None]) -> Callable[[torch.fx.Graph], None]:
        def move_constructors_to_gpu(graph: torch.fx.Graph) -> None:
            before(graph)
            copy_to_device(graph)

        return move_constructors_to_gpu

    _replace(post_grad, "move_constructors_to_gpu", make)


@_at_registration
def combo_kernels() -> None:
    """torch 2.11 to 2.15. ``config.combo_kernels`` groups all nodes that are not on the CPU, but only Triton has such
    kernels; C++ fails an assertion. torch 2.15 selects the nodes in a function of their own."""
    from torch._inductor import scheduler

    node = scheduler.ForeachKernelSchedulerNode
    selection = "_filter_nodes_for_combo_kernel_grouping"
    if select := getattr(node, selection, None):
        setattr(node, selection, staticmethod(lambda ns: [n for n in select(ns) if not node_is_on_device(n)]))
        return
    before = node._default_group_nodes_for_combo_kernels

    def group(s: Any) -> list[list[Any]]:
        groups = [[n for n in nodes if not node_is_on_device(n)] for nodes in before(s)]
        return [nodes for nodes in groups if len(nodes) > 1]

    node.set_group_algorithm_for_combo_kernels(group)


@_at_registration
@_since(2, 13)
def graph_trees() -> None:
    """torch 2.13 to 2.15. ``mode="reduce-overhead"`` captures graphs only on CUDA. Three places decide: the module that
    captures (see graph_trees.py), the check of the graph's devices, and the choice of nodes that a capture can contain."""
    from torch._inductor import cudagraph_utils, scheduler

    from . import graph_trees as device_graph_trees

    if not device_graph_trees.is_supported():
        return
    device_graph_trees.use_this_device()

    def check(before: Callable[..., str | None]) -> Callable[..., str | None]:
        def check_multiple_devices_or_any_cpu_nodes(nodes: dict[torch.device, Any]) -> str | None:
            as_cuda = {_as_cuda(device): node for device, node in nodes.items()}
            return before(as_cuda)

        return check_multiple_devices_or_any_cpu_nodes

    _replace(cudagraph_utils, "check_multiple_devices_or_any_cpu_nodes", check)

    def partition(before: Callable[..., str | None]) -> Callable[..., str | None]:
        def should_partition(self: Any, node: Any, *args: Any) -> str | None:
            is_gpu = scheduler.BaseSchedulerNode.is_gpu
            scheduler.BaseSchedulerNode.is_gpu = (  # type: ignore[method-assign]
                lambda self: is_gpu(self) or node_is_on_device(self)
            )
            try:
                reason = before(self, node, *args)
            finally:
                scheduler.BaseSchedulerNode.is_gpu = is_gpu  # type: ignore[method-assign]
            return reason or device_graph_trees.reason_not_to_capture(self, node)

        return should_partition

    _replace(scheduler.Scheduler, "should_partition", partition)


def _as_cuda(device: torch.device) -> torch.device:
    return torch.device("cuda", device.index) if device.type == DEVICE_NAME else device


def _as_cpu(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a function of Inductor that takes the device for the CPU."""
    from torch._inductor import ir

    before = ir.get_device_type
    ir.get_device_type = lambda x: "cpu" if before(x) == DEVICE_NAME else before(x)
    try:
        return function(*args, **kwargs)
    finally:
        ir.get_device_type = before
