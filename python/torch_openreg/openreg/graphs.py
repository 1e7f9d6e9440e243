"""Graphs: the work of a stream, captured once and replayed without Python.

``torch.accelerator.Graph`` is the graph itself; this module has the related functions of ``torch.cuda``. The memory
that a capture allocates belongs to the graph's private pool; ``MemPool`` and ``use_mem_pool`` provide private pools
outside of graphs.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from torch_openreg import _C
from torch_openreg._name import DEVICE_NAME
from torch_openreg._torch_versions import HAS_GRAPHS

from ._lazy import _is_in_bad_fork, _lazy_init
from .device import DeviceLike, current_device, index_of, synchronize
from .memory import empty_host_cache, memory_snapshot
from .stream import Stream, StreamContext

if TYPE_CHECKING:
    from .graph_inputs import GraphInputs

PoolHandle = tuple[int, int]


def is_current_stream_capturing() -> bool:
    """Whether the current stream is being captured. Does not open a device."""
    return _C.is_current_stream_capturing()


def graph_pool_handle() -> PoolHandle:
    """A new ID of a memory pool that graphs can share."""
    return _C.graph_pool_handle()


class OpenRegGraph(torch.accelerator.Graph if HAS_GRAPHS else object):  # type: ignore[misc]
    """A graph with the signatures of ``torch.cuda.CUDAGraph``. Needs torch 2.13."""

    def __new__(cls, keep_graph: bool = False) -> "OpenRegGraph":
        _lazy_init()
        if not HAS_GRAPHS:
            raise NotImplementedError(
                f"torch {torch.__version__} has no torch.accelerator.Graph; graphs need torch 2.13"
            )
        return super().__new__(cls, keep_graph)

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__(keep_graph)
        self._inputs: GraphInputs | None = None

    def capture_begin(
        self,
        pool: PoolHandle | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        """Begins to capture the current stream, which must not be the default stream.

        ``capture_error_mode`` selects the threads that must not free memory during the capture: "global" all threads,
        "thread_local" the calling thread, "relaxed" none. With ``check_input_liveness``, a replay raises RuntimeError
        if a tensor that the capture used was freed.
        """
        self.graph_pool = pool
        self.capture_error_mode = capture_error_mode
        super().capture_begin()
        self._inputs = None
        if check_input_liveness:
            from .graph_inputs import GraphInputs  # imports much of torch.utils

            self._inputs = GraphInputs()
            self._inputs.__enter__()

    def capture_end(self) -> None:
        if self._inputs is not None:
            self._inputs.__exit__(None, None, None)
        super().capture_end()

    def replay(self) -> None:
        if self._inputs is not None:
            self._inputs.check()
        super().replay()

    def reset(self) -> None:
        self._inputs = None
        super().reset()

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Only checks the device: every generator that the capture uses is registered automatically."""
        if generator.device.type != DEVICE_NAME:
            raise RuntimeError(
                f"Expected a '{DEVICE_NAME}' device type for generator but found '{generator.device.type}'"
            )


class graph:
    """Captures the work of a ``with`` block into a graph, on ``stream`` or a default capture stream.

    ``check_input_liveness`` is that of ``OpenRegGraph.capture_begin``.
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        openreg_graph: "torch.accelerator.Graph",
        pool: PoolHandle | None = None,
        stream: torch.Stream | None = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        if enable_annotations:
            raise NotImplementedError("annotations of kernels in graphs are those of the CUDA driver")
        if check_input_liveness and not isinstance(openreg_graph, OpenRegGraph):
            raise TypeError(f"check_input_liveness needs an OpenRegGraph, got {type(openreg_graph).__name__}")
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self.graph = openreg_graph
        self.capture_stream = stream
        self._settings: tuple[PoolHandle | None, Any] = (pool, capture_error_mode)  # torch checks the mode
        self._check_input_liveness = check_input_liveness
        self._stream_context = StreamContext(stream)

    def __enter__(self) -> None:
        synchronize()
        torch.accelerator.empty_cache()
        empty_host_cache()
        self._stream_context.__enter__()
        try:
            if isinstance(self.graph, OpenRegGraph):
                self.graph.capture_begin(*self._settings, self._check_input_liveness)
            else:
                self.graph.graph_pool, self.graph.capture_error_mode = self._settings
                self.graph.capture_begin()
        except BaseException:
            self._stream_context.__exit__()
            raise

    def __exit__(self, *exception: object) -> None:
        try:
            self.graph.capture_end()
        finally:
            self._stream_context.__exit__(*exception)


def _release_pool(device: int, pool: PoolHandle) -> None:
    if not _is_in_bad_fork():
        _C.release_pool(device, pool)
        _C.empty_pool(device, pool)


class MemPool:
    """A private pool of device memory. Memory that is freed returns to the pool and is not used for other allocations.

    When the object is destroyed, free memory of the pool is released. The rest is released by
    ``torch.accelerator.empty_cache`` after its tensors are destroyed.

    With ``use_on_oom``, an allocation outside of the pool takes free memory of the pool before it fails. With
    ``no_split``, each tensor gets a whole segment.
    """

    def __init__(self, allocator: None = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        if allocator is not None:
            raise NotImplementedError("memory pools have no allocator of their own; allocator must be None")
        _lazy_init()
        self._id = graph_pool_handle()
        self._device = current_device()
        _C.use_pool(self._device, self._id)
        _C.configure_pool(self._device, self._id, use_on_oom, no_split)
        weakref.finalize(self, _release_pool, self._device, self._id).atexit = False

    @property
    def id(self) -> PoolHandle:
        return self._id

    def use_count(self) -> int:
        """Number of users of the pool: this object, graphs, and active ``use_mem_pool`` blocks."""
        return _C.pool_users(self._device, self._id)

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """The segments of the pool with their blocks, as ``memory_snapshot``."""
        return memory_snapshot(self.id, include_traces)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: DeviceLike = None) -> Iterator[None]:
    """Allocates from ``pool`` in a ``with`` block, on this thread."""
    index = index_of(device)
    route = _C.begin_thread_route(index, pool.id)
    try:
        yield
    finally:
        _C.end_route(route)
        _C.release_pool(index, pool.id)


def make_graphed_callables(
    callables: Callable[..., Any] | tuple[Callable[..., Any], ...],
    sample_args: tuple[Any, ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: PoolHandle | None = None,
    capture_error_mode: str = "global",
) -> Any:
    """Returns callables whose forward and backward are graphs, for training loops.

    ``sample_args`` has the shapes, dtypes and ``requires_grad`` of the real arguments, which are copied into it at each
    call. With a tuple of callables, ``sample_args`` is a tuple of their arguments; they share one pool and must be
    called in that order. A module is changed in place; if its training mode differs from that of the capture, it runs without
    the graphs.
    """
    if torch.is_autocast_enabled(DEVICE_NAME) and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support autocast caching: use torch.autocast(..., cache_enabled=False)"
        )
    several = isinstance(callables, tuple)
    functions = callables if isinstance(callables, tuple) else (callables,)
    samples = sample_args if several else (sample_args,)
    if len(functions) != len(samples):
        raise ValueError(f"there are {len(functions)} callables, but sample_args for {len(samples)}")
    parts = [
        _Part(function, sample, allow_unused_input)
        for function, sample in zip(functions, samples, strict=True)
    ]

    synchronize()
    with StreamContext(Stream()):
        for part in parts:
            for _ in range(num_warmup_iters):
                part.warm_up()
    synchronize()

    pool = graph_pool_handle() if pool is None else pool
    # In the order of execution: a later capture reuses memory that an earlier one has freed.
    for part in parts:
        part.capture_forward(pool, capture_error_mode)
    for part in reversed(parts):
        part.capture_backward(pool, capture_error_mode)
    graphed = tuple(part.wrap() for part in parts)
    return graphed if several else graphed[0]


class _Part:
    """One callable with its forward and backward graph."""

    def __init__(self, function: Callable[..., Any], sample: tuple[Any, ...], allow_unused: bool) -> None:
        self.function = function
        self.sample = sample
        self.allow_unused = allow_unused
        self.arguments = tuple(pytree.arg_tree_leaves(*sample))
        if not all(isinstance(argument, torch.Tensor) for argument in self.arguments):
            raise TypeError("sample_args must contain only tensors")
        self.parameters: tuple[torch.Tensor, ...] = ()
        if isinstance(function, torch.nn.Module):
            if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
                raise RuntimeError("the module has hooks; register them after make_graphed_callables")
            if any(buffer.requires_grad for buffer in function.buffers()):
                raise RuntimeError("the module has a buffer that requires gradients; make it a parameter")
            self.parameters = tuple(function.parameters())
        self.inputs = self.arguments + self.parameters
        self.differentiable_inputs = tuple(tensor for tensor in self.inputs if tensor.requires_grad)
        self.forward_graph = OpenRegGraph()
        self.backward_graph = OpenRegGraph()

    def gradients(self, outputs: list[torch.Tensor], grads: tuple[torch.Tensor, ...]) -> Any:
        return torch.autograd.grad(outputs, self.differentiable_inputs, grads, allow_unused=self.allow_unused)

    def warm_up(self) -> None:
        outputs = [o for o in pytree.tree_leaves(self.function(*self.sample)) if o.requires_grad]
        if outputs and self.differentiable_inputs:
            self.gradients(outputs, tuple(torch.empty_like(output) for output in outputs))

    def capture_forward(self, pool: PoolHandle, error_mode: str) -> None:
        with graph(self.forward_graph, pool=pool, capture_error_mode=error_mode):
            result = self.function(*self.sample)
        self.outputs, self.structure = pytree.tree_flatten(result)

    def capture_backward(self, pool: PoolHandle, error_mode: str) -> None:
        self.grad_outputs = tuple(torch.empty_like(o) if o.requires_grad else None for o in self.outputs)
        self.grad_inputs: list[torch.Tensor | None] = [None] * len(self.inputs)
        outputs = [output for output in self.outputs if output.requires_grad]
        if not outputs or not self.differentiable_inputs:
            return
        with graph(self.backward_graph, pool=pool, capture_error_mode=error_mode):
            made = self.gradients(outputs, tuple(grad for grad in self.grad_outputs if grad is not None))
        places = [i for i, tensor in enumerate(self.inputs) if tensor.requires_grad]
        for place, gradient in zip(places, made, strict=True):
            self.grad_inputs[place] = gradient

    def wrap(self) -> Callable[..., Any]:
        node = _node_for(self)

        def call(*args: Any) -> Any:
            results = node.apply(*pytree.arg_tree_leaves(*args), *self.parameters)
            return pytree.tree_unflatten(list(results), self.structure)

        if not isinstance(self.function, torch.nn.Module):
            return call
        module, before, captured_mode = self.function, self.function.forward, self.function.training

        def forward(*args: Any, **kwargs: Any) -> Any:
            graphed = module.training == captured_mode and not kwargs
            return call(*args) if graphed else before(*args, **kwargs)

        module.forward = forward
        return module


def _copy_into(static: torch.Tensor, given: torch.Tensor) -> None:
    if static.data_ptr() != given.data_ptr():
        static.copy_(given)


def _node_for(part: _Part) -> type[torch.autograd.Function]:
    """An autograd function whose forward and backward replay the graphs of ``part``."""

    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            for static, given in zip(part.arguments, inputs, strict=False):
                _copy_into(static, given)
            part.forward_graph.replay()
            results = tuple(output.detach() for output in part.outputs)
            ctx.mark_non_differentiable(
                *(r for r, o in zip(results, part.outputs, strict=True) if not o.requires_grad)
            )
            return results

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            for static, given in zip(part.grad_outputs, grads, strict=True):
                if static is not None:
                    _copy_into(static, given)
            part.backward_graph.replay()
            return tuple(None if grad is None else grad.detach() for grad in part.grad_inputs)

    return Graphed
