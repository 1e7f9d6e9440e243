"""Events as torch.Event and torch.openreg.Event know them."""

import pytest
import torch
from held import held


def test_an_event_that_was_never_recorded_is_done():
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


def test_an_event_behind_pending_work_is_not_done():
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


def test_elapsed_time_needs_timing_and_records():
    start, end = torch.openreg.Event(enable_timing=True), torch.openreg.Event()
    with pytest.raises(Exception, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    end.record()
    end.synchronize()
    with pytest.raises(Exception, match="timing"):
        start.elapsed_time(end)


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
