"""Small programs with one race each. ``fixed``: the same program with the missing call.

Each program has the name of its bug, and the words of the report that name the two operators or the missing call.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

import torch

DEVICE = "openreg"
SIZE = 1000

openreg = torch.openreg


class Program(NamedTuple):
    run: Callable[[bool], object]
    report: tuple[str, ...]


PROGRAMS: dict[str, Program] = {}


def bug(*report: str) -> Callable[[Callable[[bool], object]], Callable[[bool], object]]:
    def add(function: Callable[[bool], object]) -> Callable[[bool], object]:
        PROGRAMS[function.__name__] = Program(function, report)
        return function

    return add


def ones() -> torch.Tensor:
    return torch.ones(SIZE, device=DEVICE)


def main() -> torch.Stream:
    return openreg.current_stream()


# ---- Streams


@bug("aten::fill_", "aten::mul.Tensor reads", "wait_stream")
def side_stream_reads_before_the_write(fixed):
    side, x = openreg.Stream(), ones()
    if fixed:
        side.wait_stream(main())
    with openreg.stream(side):
        y = x * 2
    main().wait_stream(side)
    return y


@bug("aten::mul.Tensor writes on stream", "aten::sum", "wait_stream")
def result_of_a_side_stream_is_read_at_once(fixed):
    side, x = openreg.Stream(), ones()
    side.wait_stream(main())
    with openreg.stream(side):
        y = x * 2
    if fixed:
        main().wait_stream(side)
    return y.sum(), x


@bug("aten::add_.Tensor writes", "aten::mul_.Tensor writes", "wait_stream")
def two_streams_write_one_tensor(fixed):
    first, second, x = openreg.Stream(), openreg.Stream(), ones()
    for stream in (first, second):
        stream.wait_stream(main())
    with openreg.stream(first):
        x.add_(1)
    if fixed:
        second.wait_stream(first)
    with openreg.stream(second):
        x.mul_(2)
    return x


@bug("aten::sum", "aten::zero_ writes", "wait_stream")
def overwritten_while_another_stream_reads(fixed):
    side, x = openreg.Stream(), ones()
    side.wait_stream(main())
    with openreg.stream(side):
        y = x.sum()
    if fixed:
        main().wait_stream(side)
    x.zero_()
    return x, y


@bug("aten::add_.Tensor writes", "aten::mul.Tensor reads")
def event_is_recorded_before_the_write(fixed):
    side, x = openreg.Stream(), ones()
    if not fixed:
        event = main().record_event()
    x.add_(1)
    if fixed:
        event = main().record_event()
    side.wait_event(event)
    with openreg.stream(side):
        y = x * 2
    main().wait_stream(side)
    return y


@bug("aten::mul.Tensor writes", "aten::add.Tensor reads")
def another_stream_waits(fixed):
    producer, consumer, other, x = openreg.Stream(), openreg.Stream(), openreg.Stream(), ones()
    producer.wait_stream(main())
    with openreg.stream(producer):
        y = x * 2
    (consumer if fixed else other).wait_stream(producer)
    with openreg.stream(consumer):
        z = y + 1
    for stream in (producer, consumer, other):
        main().wait_stream(stream)
    return y, z


@bug("writes on the default stream of openreg:0, at backward of", "aten::sum")
def gradient_on_a_side_stream(fixed):
    side, layer = openreg.Stream(), torch.nn.Linear(4, 4, device=DEVICE)
    side.wait_stream(main())
    layer(torch.ones(2, 4, device=DEVICE)).sum().backward()
    if fixed:
        side.wait_stream(main())
    with openreg.stream(side):
        norm = layer.weight.grad.sum()
    main().wait_stream(side)
    return layer, norm


@bug("aten::copy_ writes", "aten::mul.Tensor reads", "openreg:1")
def copy_to_another_device(fixed):
    with openreg.device(1):
        side = openreg.Stream()
    x = ones().to(f"{DEVICE}:1")
    if fixed:
        side.wait_stream(openreg.current_stream(1))
    with openreg.stream(side):
        y = x * 2
    openreg.current_stream(1).wait_stream(side)
    return y


@bug("aten::fill_.Scalar writes", "aten::add_.Tensor writes")
def rows_that_overlap(fixed):
    side, x = openreg.Stream(), torch.zeros(10, 10, device=DEVICE)
    side.wait_stream(main())
    x[:6, 1:9].fill_(1)
    with openreg.stream(side):
        x[6 if fixed else 5 :, 1:9].add_(1)
    main().wait_stream(side)
    return x


@bug("aten::fill_.Scalar writes", "aten::add_.Tensor writes")
def columns_that_overlap(fixed):
    side, x = openreg.Stream(), torch.zeros(10, 10, device=DEVICE)
    side.wait_stream(main())
    x[:, :5].fill_(1)
    with openreg.stream(side):
        x[:, 5 if fixed else 4 :].add_(1)
    main().wait_stream(side)
    return x


@bug("aten::fill_.Scalar writes", "aten::mul.Tensor reads")
def thread_with_a_stream_of_its_own(fixed):
    side, x = openreg.Stream(), ones()
    ready = main().record_event()
    made = []

    def work() -> None:
        with openreg.stream(side):
            if fixed:
                side.wait_event(ready)
            made.append(x * 2)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    main().wait_stream(side)
    return made


# ---- Reuse of memory


@bug("aten::mul.Tensor reads on stream", "aten::zero_ writes on the default stream", "record_stream")
def freed_while_a_side_stream_reads(fixed):
    side, x = openreg.Stream(), ones()
    side.wait_stream(main())
    with openreg.stream(side):
        y = x * 2
    if fixed:
        x.record_stream(side)
    del x
    return torch.zeros(SIZE, device=DEVICE), y


@bug("aten::mul.Tensor reads on stream", "aten::zero_ writes", "record_stream")
def record_stream_of_another_stream(fixed):
    side, other, x = openreg.Stream(), openreg.Stream(), ones()
    side.wait_stream(main())
    with openreg.stream(side):
        y = x * 2
    x.record_stream(side if fixed else other)
    del x
    return torch.zeros(SIZE, device=DEVICE), y


@bug("aten::sum", "aten::zero_ writes on stream", "record_stream")
def side_stream_reuses_its_result(fixed):
    side = openreg.Stream()
    with openreg.stream(side):
        x = ones()
    main().wait_stream(side)
    total = x.sum()
    if fixed:
        x.record_stream(main())
    del x
    with openreg.stream(side):
        y = torch.zeros(SIZE, device=DEVICE)
    return total, y


@bug("aten::fill_.Scalar writes on stream", "wait_stream")
def first_use_on_another_stream(fixed):
    side, x = openreg.Stream(), ones()
    del x
    y = torch.empty(SIZE, device=DEVICE)  # the memory of x, whose last write may be pending
    if fixed:
        side.wait_stream(main())
    with openreg.stream(side):
        y.fill_(2)
    main().wait_stream(side)
    return y


# ---- Pinned memory


@bug("aten::copy_ writes", "aten::sum", "synchronize()")
def host_operator_before_the_copy_is_complete(fixed):
    x = ones()
    result = torch.empty(SIZE, pin_memory=True)
    result.copy_(x, non_blocking=True)
    if fixed:
        main().synchronize()
    return result.sum(), x


@bug("aten::copy_ writes", "Tensor.numpy reads on the host", "synchronize()")
def numpy_before_the_copy_is_complete(fixed):
    x = ones()
    result = torch.empty(SIZE, pin_memory=True)
    result.copy_(x, non_blocking=True)
    if fixed:
        main().record_event().synchronize()
    return result.numpy(), x


@bug("aten::copy_ writes", "Tensor.tolist reads on the host", "synchronize()")
def tolist_after_another_stream_was_synchronized(fixed):
    side, x = openreg.Stream(), ones()
    result = torch.empty(SIZE, pin_memory=True)
    side.wait_stream(main())
    with openreg.stream(side):
        result.copy_(x, non_blocking=True)
    (side if fixed else main()).synchronize()
    return result.tolist(), x


@bug("aten::copy_ reads", "aten::fill_ writes on the host", "synchronize()")
def staging_buffer_is_refilled(fixed):
    staging = torch.ones(SIZE, pin_memory=True)
    first = staging.to(DEVICE, non_blocking=True)
    if fixed:
        main().record_event().synchronize()
    staging.fill_(2)
    return first, staging.to(DEVICE, non_blocking=True)


@bug("aten::copy_ writes", "reads on the host", "synchronize()")
def event_of_the_copy_before(fixed):
    x = ones()
    result = torch.empty(SIZE, pin_memory=True)
    event = main().record_event()
    result.copy_(x, non_blocking=True)
    if fixed:
        event = main().record_event()
    event.synchronize()
    return result[0].item(), x


# ---- Graphs


def captured(x: torch.Tensor) -> tuple["openreg.OpenRegGraph", torch.Tensor]:
    graph = openreg.OpenRegGraph()
    with openreg.graph(graph):
        y = x * 2
    return graph, y


@bug("aten::add_.Tensor writes", "aten::mul.Tensor reads on stream", "captured at")
def replay_before_the_input_is_written(fixed):
    side, x = openreg.Stream(), ones()
    graph, y = captured(x)
    x.add_(1)
    if fixed:
        side.wait_stream(main())
    with openreg.stream(side):
        graph.replay()
    main().wait_stream(side)
    return graph, y


@bug("aten::sum", "aten::mul.Tensor writes", "captured at")
def replay_over_a_result_in_use(fixed):
    side, x = openreg.Stream(), ones()
    graph, y = captured(x)
    graph.replay()
    side.wait_stream(main())
    with openreg.stream(side):
        total = y.sum()
    if fixed:
        main().wait_stream(side)
    graph.replay()
    main().wait_stream(side)
    return graph, total


@bug("aten::add_.Tensor writes", "aten::mul.Tensor reads")
def branch_of_a_capture(fixed):
    # The default stream of captures may be any stream of the pool, also `side`.
    captures, side, x = openreg.Stream(), openreg.Stream(), ones()
    graph = openreg.OpenRegGraph()
    with openreg.graph(graph, stream=captures):
        if not fixed:
            side.wait_stream(main())
        x.add_(1)
        if fixed:
            side.wait_stream(main())
        with openreg.stream(side):
            y = x * 2
        main().wait_stream(side)
    return graph, y


# ---- Bugs that people reported, reduced


@bug("aten::copy_ reads on stream", "aten::zero_ writes", "record_stream")
def stashed_activation(fixed):
    """A tensor is copied to the host on a side stream, and its storage is emptied at once. The allocator gives the
    memory to the next tensor, and the copy has wrong values. https://github.com/meta-pytorch/torchrec/pull/4231
    """
    side, activation = openreg.Stream(), ones()
    stash = torch.empty(SIZE, pin_memory=True)
    side.wait_stream(main())
    with openreg.stream(side):
        stash.copy_(activation, non_blocking=True)
    if fixed:
        activation.record_stream(side)
    activation.untyped_storage().resize_(0)
    following = torch.zeros(SIZE, device=DEVICE)
    return activation, following, stash


@bug("aten::sum", "aten::copy_ writes on stream")
def prefetcher_overwrites_a_batch(fixed):
    """A loader copies the next batch on its own stream, into memory of a batch that the consumer has released and
    still reads. https://github.com/huggingface/pytorch-image-models/pull/2784
    """
    side = openreg.Stream()
    batches = [torch.full((SIZE,), float(i)).pin_memory() for i in range(3)]
    losses = []
    for batch in batches:
        if fixed:
            side.wait_stream(main())
        with openreg.stream(side):
            x = batch.to(DEVICE, non_blocking=True)
        main().wait_stream(side)
        losses.append(x.sum())
        del x
    return losses, batches


@bug("aten::copy_ writes on stream", "aten::mm reads on the default stream", "wait_stream")
def weights_on_a_transfer_stream(fixed):
    """A layer's weights are copied on a transfer stream, and the default stream multiplies with them before the copy
    has run. https://github.com/ROCm/pytorch/issues/3194
    """
    transfer = openreg.Stream()
    weights = torch.ones(32, 32).pin_memory()
    slot, x = torch.zeros(32, 32, device=DEVICE), torch.ones(32, 32, device=DEVICE)
    transfer.wait_stream(main())
    with openreg.stream(transfer):
        slot.copy_(weights, non_blocking=True)
    if fixed:
        main().wait_stream(transfer)
    return x @ slot, weights


@bug("aten::copy_ writes", "reads on the host", "synchronize()")
def non_blocking_copy_to_the_host(fixed):
    """The result of to("cpu", non_blocking=True) is used without a synchronization.
    https://github.com/pytorch/pytorch/issues/86264
    """
    x = ones()
    result = x.to("cpu", non_blocking=True)
    if fixed:
        openreg.synchronize()
    return result + 1, x
