"""Streams as torch.Stream and torch.openreg.Stream know them."""

import threading

import pytest
import torch
from held import held


def test_the_default_stream_is_current_at_first():
    assert torch.openreg.current_stream() == torch.openreg.default_stream()
    assert torch.openreg.current_stream().stream_id == 0
    assert torch.accelerator.current_stream() == torch.openreg.current_stream()


def test_a_stream_knows_its_device_and_priority():
    stream = torch.openreg.Stream("openreg:1", priority=-1)
    assert stream.device == torch.device("openreg:1")
    assert stream.priority == -1
    assert torch.openreg.Stream().priority == 0
    assert "openreg:1" in repr(stream)
    assert torch.openreg.Stream() != torch.openreg.Stream()


def test_stream_contexts_nest_across_devices_and_restore_after_exceptions():
    first, second = torch.openreg.Stream(0), torch.openreg.Stream(1)
    with pytest.raises(KeyError), torch.openreg.stream(first):
        assert torch.openreg.current_stream() == first
        with torch.openreg.stream(second):
            assert torch.openreg.current_device() == 1
            assert torch.openreg.current_stream() == second
            assert torch.openreg.current_stream(0) == first
        assert torch.openreg.current_device() == 0
        raise KeyError
    assert torch.openreg.current_stream() == torch.openreg.default_stream()
    assert torch.openreg.current_stream(1) == torch.openreg.default_stream(1)
    with torch.openreg.stream(None):
        assert torch.openreg.current_stream() == torch.openreg.default_stream()
    with first:
        assert torch.accelerator.current_stream() == first
    assert torch.accelerator.current_stream() == torch.openreg.default_stream()


def test_set_stream_also_sets_the_device():
    stream = torch.openreg.Stream(1)
    torch.openreg.set_stream(stream)
    assert torch.openreg.current_device() == 1
    assert torch.openreg.current_stream() == stream
    torch.openreg.set_stream(torch.openreg.default_stream(1))
    torch.accelerator.set_stream(torch.openreg.default_stream(0))
    assert torch.openreg.current_device() == 0


def test_the_current_stream_is_a_threads_own():
    seen = []
    with torch.openreg.stream(torch.openreg.Stream()):
        thread = threading.Thread(target=lambda: seen.append(torch.openreg.current_stream()))
        thread.start()
        thread.join()
    assert seen == [torch.openreg.default_stream()]


def test_a_stream_with_work_answers_query_with_false():
    stream, other = torch.openreg.Stream(), torch.openreg.Stream()
    with held(stream):
        assert not stream.query()
        assert other.query()
        other.synchronize()
    assert stream.query()


def test_a_stream_waits_for_what_it_was_told_to_wait_for():
    producer, consumer = torch.openreg.Stream(), torch.openreg.Stream()
    with held(producer):
        consumer.wait_stream(producer)
        assert not consumer.query()
    consumer.synchronize()
    assert consumer.query()


def test_synchronize_waits_for_its_own_device_only():
    stream = torch.openreg.Stream(1)
    with held(stream):
        torch.openreg.synchronize(0)
        assert not stream.query()


def test_streams_wait_for_each_other():
    producer, consumer = torch.openreg.Stream(), torch.openreg.Stream()
    with torch.openreg.stream(producer):
        made = torch.full((1000,), 3.0, device="openreg")
    consumer.wait_stream(producer)
    with torch.openreg.stream(consumer):
        assert made.sum().item() == 3000
    event = producer.record_event()
    consumer.wait_event(event)
    consumer.synchronize()
    assert event.query()


def test_results_on_a_side_stream_are_right():
    stream = torch.openreg.Stream()
    stream.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(stream):
        a = torch.arange(10.0, device="openreg")
        b = (a * 2).cpu()
    assert b.tolist() == [2.0 * i for i in range(10)]


def test_native_handles_and_external_streams():
    stream = torch.openreg.Stream()
    external = torch.openreg.ExternalStream(stream.native_handle)
    with torch.openreg.stream(external):
        assert torch.ones(4, device="openreg").sum().item() == 4
    assert external.device == stream.device
    with pytest.raises(torch.AcceleratorError, match="stream"):
        torch.openreg.ExternalStream(0x7654321)


def test_the_pool_hands_out_streams_in_turn_for_ever():
    ids = {torch.openreg.Stream().stream_id for _ in range(100)}
    assert len(ids) == 32
    assert 0 not in ids


def test_many_streams_do_not_mean_many_threads():
    import os

    before = len(os.listdir("/proc/self/task"))
    for priority in (0, -1):
        for _ in range(64):
            with torch.openreg.stream(torch.openreg.Stream(priority=priority)):
                torch.ones(100).pin_memory().to("openreg", non_blocking=True)
    torch.openreg.synchronize()
    assert len(os.listdir("/proc/self/task")) - before < 20
