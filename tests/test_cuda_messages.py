"""Error messages start with CUDA's wording, which programs and PyTorch's tests match. Our details follow."""

import os

import pytest
import torch
from captures import capture
from interpreter import forked_child_error

openreg = torch.openreg
DEVICE = "openreg"


def on_two_devices():
    torch.ones(2, device="openreg:0") + torch.ones(2, device="openreg:1")


def on_device_and_host():
    torch.ones(2, 2, device=DEVICE) @ torch.ones(2, 2)


def timed(**options: bool) -> openreg.Event:
    event = openreg.Event(**options)
    event.record()
    event.synchronize()
    return event


def sum_with_item():
    torch.ones(2, device=DEVICE).sum().item()


def waits_for_uncaptured_work():
    side = openreg.Stream()
    event = openreg.Event()
    event.record(side)
    capture(lambda: openreg.current_stream().wait_event(event))


def event_of_a_capture():
    x, event = torch.ones(2, device=DEVICE), openreg.Event()
    capture(lambda: (x.add_(1), event.record()))
    event.synchronize()


def record_elsewhere():
    event = timed()
    event.record(openreg.Stream("openreg:1"))


def generator_state(size: int):
    generator = torch.Generator(DEVICE)
    generator.set_state(torch.zeros(size, dtype=torch.uint8))


def empty_graph():
    capture(lambda: None)


def item_in_sync_debug_mode():
    openreg.set_sync_debug_mode("error")
    try:
        sum_with_item()
    finally:
        openreg.set_sync_debug_mode("default")


MESSAGES = {
    "device": (
        lambda: openreg.set_device(7),
        torch.AcceleratorError,
        r"openreg error: invalid device ordinal",
    ),
    "memory": (
        lambda: torch.empty(1 << 50, dtype=torch.uint8, device=DEVICE),
        torch.OutOfMemoryError,
        r"openreg out of memory\. Tried to allocate 1048576\.00 GiB\. GPU 0 has a total capacity of 8\.00 GiB of which"
        r".* is free\. Of the allocated memory .* is allocated by PyTorch, and .* is reserved by PyTorch but unallocated",
    ),
    "two devices": (
        on_two_devices,
        RuntimeError,
        "Expected all tensors to be on the same device, but found at least two devices, openreg:0 and openreg:1!",
    ),
    "device and host": (
        on_device_and_host,
        RuntimeError,
        "Expected all tensors to be on the same device, but found at least two devices, openreg:0 and cpu!",
    ),
    "generator": (
        lambda: torch.empty(2, device=DEVICE).normal_(generator=torch.Generator()),
        RuntimeError,
        "Expected a 'openreg' device type for generator but found 'cpu'",
    ),
    "generator's state": (lambda: generator_state(7), RuntimeError, "RNG state is wrong size"),
    "kind of device": (
        lambda: openreg.synchronize("cpu"),
        ValueError,
        "Expected a openreg device, but got: cpu",
    ),
    "pinned": (
        lambda: torch.empty(2, device=DEVICE, pin_memory=True),
        RuntimeError,
        "Only dense CPU tensors can be pinned",
    ),
    "fraction": (
        lambda: openreg.set_per_process_memory_fraction(2.0),
        ValueError,
        r"Invalid fraction value: 2\.0\. Allowed range: 0~1",
    ),
    "type of fraction": (
        lambda: openreg.set_per_process_memory_fraction(1),
        TypeError,
        "Invalid type for fraction argument, must be `float`",
    ),
    "unrecorded event": (
        lambda: openreg.Event(enable_timing=True).elapsed_time(timed(enable_timing=True)),
        ValueError,
        r"Both events must be recorded before calculating elapsed time\.",
    ),
    "event without timing": (
        lambda: timed().elapsed_time(timed(enable_timing=True)),
        ValueError,
        "Both events must be created with argument 'enable_timing=True'",
    ),
    "event of another device": (
        record_elsewhere,
        RuntimeError,
        "does not match recording stream's device index 1",
    ),
    "synchronization": (item_in_sync_debug_mode, RuntimeError, "called a synchronizing openreg operation"),
    "item in a capture": (
        lambda: capture(sum_with_item),
        torch.AcceleratorError,
        "operation failed due to a previous error during capture|operation not permitted when stream is capturing",
    ),
    "uncaptured work": (
        waits_for_uncaptured_work,
        torch.AcceleratorError,
        "dependency created on uncaptured work in another stream",
    ),
    "captured event": (
        event_of_a_capture,
        torch.AcceleratorError,
        "operation not permitted on an event last recorded in a capturing stream",
    ),
    "default stream": (
        lambda: torch.accelerator.Graph().capture_begin(),
        RuntimeError,
        "graphs must be captured on a non-default stream",
    ),
    "replay": (
        lambda: torch.accelerator.Graph().replay(),
        RuntimeError,
        "without a preceding successful capture",
    ),
    "empty graph": (
        empty_graph,
        UserWarning,
        r"Graph is empty\. This usually means that the graph was attempted",
    ),
    "raw pointer": (lambda: openreg.caching_allocator_delete(64), ValueError, "invalid device pointer: "),
}


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("name", MESSAGES)
def test_messages_contain_cudas_wording(name):
    call, error, message = MESSAGES[name]
    with pytest.raises(error, match=message):
        call()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not available")
def test_forked_child_error_has_cudas_wording():
    assert (
        "Cannot re-initialize openreg in forked subprocess. To use openreg with multiprocessing, "
        "you must use the 'spawn' start method"
    ) in forked_child_error()
