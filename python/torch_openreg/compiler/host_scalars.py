"""Tensors without dimensions on the host, as arguments of operators on the device: a pass over the graph.

The patch ``scalars_on_the_host`` says why they are copied.
"""

import torch
from torch._inductor import config

from torch_openreg._name import DEVICE_NAME


def copy_to_device(graph: torch.fx.Graph) -> None:
    """Copies elements of host tensors; all scalars, if parts of the graph are captured."""
    captured = config.triton.cudagraphs and config.graph_partition
    for node in list(graph.nodes):
        if _is_host_scalar(node) and (captured or _is_view(node)):
            _copy_scalar(graph, node)


def _is_host_scalar(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dim() == 0


def _is_view(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _copy_scalar(graph: torch.fx.Graph, scalar: torch.fx.Node) -> None:
    """One copy for the operators of each device that take the scalar."""
    aten = torch.ops.aten
    take_host_tensors = (
        aten.index, aten.index_put, aten.index_put_, aten.copy, aten.copy_, aten.slice_scatter, aten._to_copy,
        torch.ops.prims.device_put,
    )  # fmt: skip
    copies: dict[torch.device, torch.fx.Node] = {}
    for user in list(scalar.users):
        value = user.meta.get("val")
        if (
            isinstance(user.target, torch._ops.OpOverload)
            and user.target.namespace in ("aten", "prims")
            and user.target.overloadpacket not in take_host_tensors
            and isinstance(value, torch.Tensor)
            and value.device.type == DEVICE_NAME
        ):
            if value.device not in copies:
                with graph.inserting_after(scalar):
                    copy = graph.call_function(torch.ops.prims.device_put.default, (scalar, value.device))
                copy.meta["val"] = scalar.meta["val"].to(value.device)
                copies[value.device] = copy
            user.replace_input_with(scalar, copies[value.device])
