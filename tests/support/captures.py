"""Captures graphs, for the tests of graphs."""

import torch

openreg = torch.openreg
DEVICE = "openreg"


def capture(function, **options):
    """Captures one call of the function. Returns the graph and the function's result."""
    graph = openreg.OpenRegGraph()
    with openreg.graph(graph, **options):
        result = function()
    return graph, result


def side_streams(count):
    """Distinct streams, none of which is the stream of ``capture``: stream pools return streams round robin."""
    capture(lambda: torch.ones(1, device=DEVICE))
    taken = {openreg.graph.default_capture_stream.stream_id}
    while len(taken) <= count:
        stream = openreg.Stream()
        if stream.stream_id not in taken:
            taken.add(stream.stream_id)
            yield stream
