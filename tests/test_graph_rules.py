"""Calls that are not permitted during capture, and the states of a graph. Every test runs in all three schedules."""

import threading

import pytest
import torch
from captures import DEVICE, capture

openreg = torch.openreg
pytestmark = pytest.mark.usefixtures("each_schedule")


def event_on_stream():
    event = openreg.Event()
    event.record()
    return event


ILLEGAL = {
    "synchronize": (lambda x: openreg.synchronize(), "synchronizing device 0"),
    "accelerator": (lambda x: torch.accelerator.synchronize(), "synchronizing device 0"),
    "stream": (lambda x: openreg.current_stream().synchronize(), "synchronizing a stream"),
    "query": (lambda x: openreg.current_stream().query(), "querying a stream"),
    "event": (lambda x: event_on_stream().synchronize(), "synchronizing an event"),
    "event query": (lambda x: event_on_stream().query(), "querying an event"),
    "item": (lambda x: x.sum().item(), "aten::_local_scalar_dense"),
    "nonzero": (lambda x: x.nonzero(), "the operator 'aten::nonzero'"),
    "mask": (lambda x: x[x > 0], "the operator 'aten::(nonzero|index)"),
    "unique": (lambda x: x.unique(), "the operator 'aten::_unique2'"),
    "equal": (lambda x: torch.equal(x, x), "the operator 'aten::equal'"),
    "to cpu": (lambda x: x.cpu(), "a copy between host and device"),
    "from cpu": (lambda x: x.copy_(torch.ones(8)), "a copy between host and device"),
    "tensor": (lambda x: torch.tensor([1.0], device=DEVICE), "a copy between host and device"),
    "pageable": (lambda x: x.copy_(torch.ones(8), non_blocking=True), "a copy between host and device"),
    "empty_cache": (lambda x: torch.accelerator.empty_cache(), "emptying the cache"),
    "seed": (lambda x: torch.manual_seed(12345), "seeding a generator"),
    "rng state": (
        lambda x: openreg.set_rng_state(torch.zeros(16, dtype=torch.uint8)),
        "setting a generator's state to one that was read outside of captures",
    ),
    "replay": (lambda x: OTHER.replay(), "launching a graph"),
}
OTHER = None


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_calls_raise_and_invalidate_the_capture(name):
    global OTHER
    call, message = ILLEGAL[name]
    x = torch.ones(8, device=DEVICE)
    OTHER, _ = capture(lambda: x + 1)
    graph = openreg.OpenRegGraph()
    invalid = pytest.raises(RuntimeError, match=f"the capture of stream .* is invalid: .*{message}")
    with invalid, openreg.graph(graph):
        x + 1
        with pytest.raises(RuntimeError, match=message):
            call(x)
        with pytest.raises(RuntimeError, match="can only be ended"):
            x + 2
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with openreg.graph(graph):  # the device and this graph stay usable
        y = x + 3
    graph.replay()
    assert y[0].item() == 4
    OTHER = None


def test_an_exception_ends_the_capture_and_is_chained():
    x = torch.ones(8, device=DEVICE)
    with pytest.raises(RuntimeError, match="is invalid") as caught, openreg.graph(openreg.OpenRegGraph()):
        x.sum().item()
    assert "aten::_local_scalar_dense" in str(caught.value.__context__)
    with pytest.raises(KeyError), openreg.graph(openreg.OpenRegGraph()):
        x + 1
        raise KeyError
    assert not openreg.is_current_stream_capturing()
    assert openreg.current_stream() == openreg.default_stream()


def test_other_threads_work_during_a_capture():
    x = torch.ones(100, device=DEVICE)
    seen = []
    with openreg.graph(graph := openreg.OpenRegGraph(), capture_error_mode="thread_local"):
        y = x + 1
        thread = threading.Thread(target=lambda: seen.append((x * 3).sum().item()))
        thread.start()
        thread.join()
    graph.replay()
    assert seen == [300] and y[0].item() == 2


def test_waiting_for_an_event_from_outside_is_rejected():
    event = event_on_stream()
    with pytest.raises(RuntimeError, match="outside of the capture"), openreg.graph(openreg.OpenRegGraph()):
        torch.ones(3, device=DEVICE)
        openreg.current_stream().wait_event(event)


def test_states_of_a_graph():
    x = torch.ones(4, device=DEVICE)
    graph = torch.accelerator.Graph()
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"), graph:
        pass
    for call in (graph.replay, graph.pool, graph.instantiate, graph.capture_end):
        with pytest.raises(RuntimeError, match=r"successful capture|Invalid capture"):
            call()
    graph.reset()
    with torch.Stream(), graph:
        x.add_(1)
    with pytest.raises(RuntimeError, match="already owns a captured graph"), torch.Stream(), graph:
        pass
    graph.reset()
    with torch.Stream(), graph:
        x.add_(10)
    graph.replay()
    assert x[0].item() == 11
    with pytest.warns(UserWarning, match="Graph is empty"), torch.Stream(), torch.accelerator.Graph():
        pass


def test_keep_graph_and_debug_dump(tmp_path):
    x = torch.ones(4, device=DEVICE)
    graph = torch.accelerator.Graph(keep_graph=True)
    graph.enable_debug_mode()
    with torch.Stream(), graph:
        (x + 1).relu()
    graph.instantiate()
    graph.replay()
    graph.debug_dump(str(tmp_path / "graph.dot"))
    text = (tmp_path / "graph.dot").read_text()
    assert "aten::add" in text and "aten::relu" in text and "n0 -> n1" in text


def test_kernel_errors_are_raised_at_the_next_synchronization():
    table = torch.arange(10.0, device=DEVICE)
    index = torch.zeros(4, dtype=torch.int64, device=DEVICE)
    graph, y = capture(lambda: table.gather(0, index) + 1)
    graph.replay()
    openreg.synchronize()
    index.fill_(99)
    graph.replay()
    with pytest.raises(RuntimeError, match=r"'aten::gather.*out of bounds.*test_graph_rules.py"):
        openreg.synchronize()
    index.fill_(3)
    graph.replay()
    assert y.tolist() == [4, 4, 4, 4]


def test_copies_with_pinned_memory():
    host = torch.ones(8).pin_memory()
    back = torch.zeros(8).pin_memory()
    x = torch.zeros(8, device=DEVICE)

    def work():
        x.copy_(host, non_blocking=True)
        back.copy_(x * 2, non_blocking=True)

    graph, _ = capture(work)
    for value in (1, 2, 3):
        host.fill_(value)
        graph.replay()
        openreg.synchronize()
        assert back.tolist() == [2 * value] * 8


def test_capture_on_the_second_device():
    x = torch.ones(4, device="openreg:1")
    with openreg.device(1):
        stream = openreg.Stream()
        graph, y = capture(lambda: x + 1, stream=stream)
    graph.replay()
    assert y.tolist() == [2, 2, 2, 2]


def test_only_the_capturing_thread_ends_a_capture():
    graph, stream = openreg.OpenRegGraph(), openreg.Stream()
    x, errors = torch.ones(3, device=DEVICE), []
    openreg.synchronize()
    with openreg.stream(stream):
        graph.capture_begin()
        x.add_(1)

    def end() -> None:
        with openreg.stream(stream):
            try:
                graph.capture_end()
            except RuntimeError as error:
                errors.append(str(error))

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert "begun by another thread" in errors[0]
    with openreg.stream(stream):
        x.add_(1)
        graph.capture_end()
    graph.replay()
    assert x.tolist() == [3, 3, 3]
