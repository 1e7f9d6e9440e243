"""Captures of work into graphs, for the tests of graphs."""

import torch

openreg = torch.openreg
DEVICE = "openreg"


def capture(function, **options):
    """The graph of one call of the function, and what the function returned."""
    graph = openreg.OpenRegGraph()
    with openreg.graph(graph, **options):
        result = function()
    return graph, result


def side_streams(count):
    """Streams that are neither each other nor the one on which ``capture`` captures: pools hand out in turn."""
    capture(lambda: torch.ones(1, device=DEVICE))
    taken = {openreg.graph.default_capture_stream.stream_id}
    while len(taken) <= count:
        stream = openreg.Stream()
        if stream.stream_id not in taken:
            taken.add(stream.stream_id)
            yield stream
