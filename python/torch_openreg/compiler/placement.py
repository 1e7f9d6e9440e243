"""Whether buffers and nodes of the graph that is compiled are on the host or on the device. Does not import Inductor."""

from typing import Any

from torch_openreg._name import DEVICE_NAME


def is_on_host(buffer_name: object) -> bool:
    """Whether a buffer of the graph that is compiled is on the host."""
    from torch._inductor.virtualized import V

    buffer = V.graph.try_get_buffer(buffer_name) if isinstance(buffer_name, str) else None
    device = None if buffer is None else buffer.get_device()
    return device is not None and device.type == "cpu"


def node_is_on_device(node: Any) -> bool:
    """A node of the scheduler."""
    device = node.get_device()
    return device is not None and device.type == DEVICE_NAME
