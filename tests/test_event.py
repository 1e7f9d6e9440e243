"""Events: torch.Event and torch.openreg.Event."""

import pytest
import torch
from blocked_stream import held


def test_an_unrecorded_event_is_complete():
    event = torch.openreg.Event()
    assert event.query()
    event.synchronize()
    event.wait()


def test_record_wait_query():
    event = torch.openreg.Event()
    torch.ones(10, device="openreg")
    event.record()
    torch.openreg.Stream().wait_event(event)
    event.synchronize()
    assert event.query()


def test_an_event_after_pending_work_is_not_complete():
    stream, event = torch.openreg.Stream(), torch.openreg.Event()
    with held(stream):
        event.record(stream)
        assert not event.query()
        event.record(torch.openreg.Stream())
        event.synchronize()
        assert event.query()
        event.record(stream)
        assert not event.query()
    assert event.query()


def test_an_event_can_be_recorded_again_on_another_stream():
    event = torch.openreg.Event()
    for stream in (torch.openreg.Stream(), torch.openreg.Stream()):
        event.record(stream)
        event.synchronize()
        assert event.query()


def test_elapsed_time():
    start, end = torch.openreg.Event(enable_timing=True), torch.openreg.Event(enable_timing=True)
    start.record()
    a = torch.ones(200, 200, device="openreg")
    for _ in range(10):
        a = a @ a * 1e-3
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0


def test_elapsed_time_requires_timing_and_recorded_events():
    start, end = torch.openreg.Event(enable_timing=True), torch.openreg.Event()
    for _ in range(2):  # with and without a record
        with pytest.raises(ValueError, match="enable_timing=True': the end event"):
            start.elapsed_time(end)
        with pytest.raises(ValueError, match="enable_timing=True': the start event"):
            end.elapsed_time(start)
        start.record()
        end.record()
    never_recorded = torch.openreg.Event(enable_timing=True)
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(never_recorded)
    with pytest.raises(TypeError, match=r"expected a torch\.Event, got int"):
        start.elapsed_time(1)


def test_elapsed_time_of_pending_work_is_rejected():
    stream = torch.openreg.Stream()
    start, end = torch.openreg.Event(enable_timing=True), torch.openreg.Event(enable_timing=True)
    start.record(stream)
    stream.synchronize()
    with held(stream):
        end.record(stream)
        with pytest.raises(torch.AcceleratorError, match="not"):
            start.elapsed_time(end)
    assert start.elapsed_time(end) >= 0


def test_elapsed_time_uses_the_latest_record():
    stream = torch.openreg.Stream()
    start, end = torch.openreg.Event(enable_timing=True), torch.openreg.Event(enable_timing=True)
    start.record(stream)
    end.record(stream)
    stream.synchronize()
    first = start.elapsed_time(end)
    end.record(stream)
    end.synchronize()
    assert start.elapsed_time(end) > first


def test_a_wait_uses_the_latest_record_at_the_call():
    """Recording the event again does not affect streams that already wait for it."""
    event, waiting = torch.openreg.Event(), torch.openreg.Stream()
    quick, slow = torch.openreg.Stream(), torch.openreg.Stream()
    event.record(quick)
    waiting.wait_event(event)
    with held(slow):
        event.record(slow)
        waiting.synchronize()
        assert waiting.query() and not event.query()


def test_an_event_can_be_destroyed_while_a_stream_waits_for_it():
    producer, consumer = torch.openreg.Stream(), torch.openreg.Stream()
    with held(producer):
        event = producer.record_event()
        consumer.wait_event(event)
        del event
        assert not consumer.query()
    consumer.synchronize()


def test_a_stream_waits_for_an_event_of_another_device():
    producer, consumer = torch.openreg.Stream(0), torch.openreg.Stream(1)
    with held(producer):
        event = producer.record_event()
        event.wait(consumer)
        assert not consumer.query() and not event.query()
        torch.openreg.Stream(1).synchronize()
    consumer.synchronize()
    assert event.query()


def test_record_uses_the_current_stream():
    stream, event = torch.openreg.Stream(1), torch.openreg.Event()
    with torch.openreg.stream(stream), held(stream):
        event.record()
        assert not event.query()
    assert event.query() and event.device == torch.device("openreg:1")


def test_an_event_has_no_device_before_its_first_record():
    event = torch.openreg.Event()
    assert event.device is None
    event.record(torch.openreg.Stream(1))
    assert event.device == torch.device("openreg:1")


def test_events_cross_devices():
    event = torch.Event("openreg:1")
    event.record(torch.openreg.Stream(1))
    torch.openreg.Stream(0).wait_event(event)
    event.synchronize()
    assert event.device == torch.device("openreg:1")


def test_an_event_belongs_to_one_device():
    event = torch.openreg.Event()
    event.record(torch.openreg.default_stream(0))
    with pytest.raises(RuntimeError, match="device"):
        event.record(torch.openreg.default_stream(1))


def test_elapsed_time_between_two_devices_is_rejected():
    events = []
    for device in (0, 1):
        with torch.openreg.device(device):
            event = torch.openreg.Event(enable_timing=True)
            event.record()
            event.synchronize()
            events.append(event)
    with pytest.raises(RuntimeError, match="device 0 and device 1"):
        events[0].elapsed_time(events[1])


@pytest.mark.host_engine
@pytest.mark.parametrize("poll", ["event", "stream"])
def test_polling_raises_the_error_of_a_failed_kernel(poll):
    """A program that polls reads the result without a synchronization."""
    values, index = torch.arange(4.0, device="openreg"), torch.tensor([99], device="openreg")
    torch.openreg.synchronize()
    result = torch.full((1,), -1.0).pin_memory()
    stream, event, before = torch.openreg.Stream(), torch.openreg.Event(), torch.openreg.Event()
    with torch.openreg.stream(stream):
        before.record()
        result.copy_(values[index], non_blocking=True)
        event.record()
    polled = event if poll == "event" else stream
    with pytest.raises(RuntimeError, match="index 99 is out of bounds"):
        while not polled.query():
            pass
    # Raised once, as by a synchronization. Then the stream can be used again.
    assert before.query() and event.query() and stream.query()
    with torch.openreg.stream(stream):
        result.copy_(values[:1], non_blocking=True)
    stream.synchronize()
    assert result.item() == 0
