"""Streams: torch.Stream and torch.openreg.Stream."""

import threading
import time

import pytest
import torch
from blocked_stream import held


def test_default_stream_is_initially_current():
    assert torch.openreg.current_stream() == torch.openreg.default_stream()
    assert torch.openreg.current_stream().stream_id == 0
    assert torch.accelerator.current_stream() == torch.openreg.current_stream()


@pytest.mark.simulated
def test_stream_device_and_priority():
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


def test_current_stream_is_thread_local():
    seen = []
    with torch.openreg.stream(torch.openreg.Stream()):
        thread = threading.Thread(target=lambda: seen.append(torch.openreg.current_stream()))
        thread.start()
        thread.join()
    assert seen == [torch.openreg.default_stream()]


def test_query_is_false_while_work_is_pending():
    stream, other = torch.openreg.Stream(), torch.openreg.Stream()
    with held(stream):
        assert not stream.query()
        assert other.query()
        other.synchronize()
    assert stream.query()


def test_wait_stream_delays_the_waiting_stream():
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


def test_wait_stream_and_wait_event():
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


def test_results_on_a_side_stream_are_correct():
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


def test_get_stream_from_external():
    stream = torch.openreg.Stream(1)
    same = torch.openreg.get_stream_from_external(stream.native_handle, "openreg:1")
    assert same.device == stream.device and same.native_handle == stream.native_handle
    with held(stream):
        assert not same.query()
    with pytest.raises(ValueError, match="device 1, not to device 0"):
        torch.openreg.get_stream_from_external(stream.native_handle, 0)


@pytest.mark.simulated
def test_priority_range():
    least, greatest = torch.openreg.Stream.priority_range()
    assert (least, greatest) == (0, -3)
    for priority in range(greatest, least + 1):
        assert torch.openreg.Stream(priority=priority).priority == priority
    assert torch.openreg.Stream(priority=greatest - 5).priority == greatest
    assert torch.openreg.Stream(priority=5).priority == least


def test_each_priority_has_its_own_stream_pool():
    normal = {torch.openreg.Stream().stream_id for _ in range(40)}
    high = {torch.openreg.Stream(priority=-1).stream_id for _ in range(40)}
    assert not normal & high


def test_equal_streams_have_equal_hashes():
    stream = torch.openreg.Stream()
    with torch.openreg.stream(stream):
        current = torch.openreg.current_stream()
    assert current == stream and hash(current) == hash(stream) and {stream: 1}[current] == 1
    assert torch.openreg.default_stream(0) != torch.openreg.default_stream(1)


def test_stream_of_an_invalid_device_raises():
    for make in (torch.openreg.Stream, torch.openreg.current_stream, torch.openreg.default_stream):
        with pytest.raises(torch.AcceleratorError, match="out of range"):
            make(77)
    with pytest.raises(ValueError, match="cpu"):
        torch.openreg.Stream("cpu")


@pytest.mark.host_engine  # the CPU fallback synchronizes
def test_kernels_run_on_the_current_stream_of_the_tensors_device():
    """The current device is 0. The tensor is on device 1, so the current stream of device 1 is used."""
    a = torch.ones(10, device="openreg:1")
    torch.openreg.synchronize(1)
    stream = torch.openreg.Stream(1)
    with torch.openreg.stream(stream):
        pass
    torch.openreg.set_stream(stream)
    torch.openreg.set_device(0)
    with held(stream):
        b = a + 1  # noqa: F841
        assert not stream.query()
        assert torch.openreg.default_stream(1).query() and torch.openreg.current_stream(0).query()
    torch.openreg.set_stream(torch.openreg.default_stream(1))
    torch.openreg.set_device(0)


def test_stream_context_is_reusable_and_thread_local():
    stream = torch.openreg.Stream()
    context = torch.openreg.StreamContext(stream)
    seen = []

    def work() -> None:
        with torch.openreg.stream(stream):
            seen.append(torch.openreg.current_stream())
        seen.append(torch.openreg.current_stream())

    for _ in range(2):
        with context:
            assert torch.openreg.current_stream() == stream
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert torch.openreg.current_stream() == torch.openreg.default_stream()
    assert seen == [stream, torch.openreg.default_stream()] * 2


@pytest.mark.host_engine  # the CPU fallback synchronizes
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_copy_between_devices_orders_both_streams(dtype):
    """The copy waits for earlier work of the destination's stream, and later work of that stream waits for the copy."""
    source = torch.full((1000,), 3.0, device="openreg:0")
    target = torch.zeros(1000, device="openreg:1", dtype=dtype)
    torch.openreg.synchronize(0)
    torch.openreg.synchronize(1)
    first, second = torch.openreg.current_stream(0), torch.openreg.current_stream(1)
    with held(second):
        target.copy_(source)
        assert not second.query()
    assert target.sum().item() == 3000
    with held(first):
        source.mul_(2)
        target.copy_(source)
        total = target.sum()
        assert not first.query() and not second.query()
    assert total.item() == 6000


def test_copy_between_devices_uses_their_current_streams():
    source = torch.ones(1000, device="openreg:0")
    torch.openreg.synchronize(0)
    busy = torch.openreg.default_stream(1)
    with held(busy), torch.openreg.stream(torch.openreg.Stream(1)):
        there = source.to("openreg:1", non_blocking=True)
        torch.openreg.current_stream(1).synchronize()
        assert there.sum().item() == 1000


def test_stream_pool_is_round_robin():
    ids = {torch.openreg.Stream().stream_id for _ in range(100)}
    assert len(ids) == 32
    assert 0 not in ids


def test_many_streams_do_not_create_many_threads():
    import os

    before = len(os.listdir("/proc/self/task"))
    for priority in (0, -1):
        for _ in range(64):
            with torch.openreg.stream(torch.openreg.Stream(priority=priority)):
                torch.ones(100).pin_memory().to("openreg", non_blocking=True)
    torch.openreg.synchronize()
    assert len(os.listdir("/proc/self/task")) - before < 20


@pytest.mark.parametrize("priority", [-(1 << 31), (1 << 31) - 1, -100, 5])
def test_priority_is_clamped_to_the_range(priority):
    stream = torch.Stream("openreg", priority=priority)
    assert torch.openreg.Stream(priority=priority).priority in (0, -3)
    stream.synchronize()


@pytest.mark.parametrize("index", [-1, -120, 100])
def test_query_of_a_stream_with_an_invalid_device_raises(index):
    stream = torch.Stream(stream_id=1, device_index=index, device_type=20)
    with pytest.raises(ValueError, match=f"invalid device index {index}"):
        stream.query()


def test_record_stream_raises_for_a_cpu_stream():
    with pytest.raises(ValueError, match="got a stream of cpu"):
        torch.ones(2, device="openreg").record_stream(torch.Stream("cpu"))


def test_sleep_blocks_only_the_current_stream():
    stream = torch.openreg.Stream()
    begin, end = torch.openreg.Event(enable_timing=True), torch.openreg.Event(enable_timing=True)
    with torch.openreg.schedule("async"), torch.openreg.stream(stream):
        begin.record()
        torch.openreg._sleep(1_000_000_000)
        end.record()
        assert not stream.query() and not end.query()
        assert torch.openreg.default_stream().query()
        end.synchronize()
    assert begin.elapsed_time(end) >= 1000


@pytest.mark.simulated
def test_sleep_keeps_stream_order(each_schedule):
    torch.openreg._sleep(10_000_000)
    assert (torch.ones(3, device="openreg") + 1).tolist() == [2, 2, 2]
    assert torch.openreg.current_stream().query()


@pytest.mark.host_engine  # the CPU fallback synchronizes
def test_long_queue_of_one_stream_does_not_slow_launches_on_another():
    """Launches are throttled on a stream with a long queue, but not on other streams."""
    first, second = (torch.ones(4, device=f"openreg:{i}") for i in range(2))
    first.add_(1)
    with torch.openreg.schedule("async"), held(torch.openreg.current_stream(1)):
        for _ in range(1300):
            second.add_(1)
        times = []
        for _ in range(10):
            begin = time.perf_counter()
            for _ in range(20):
                first.add_(1)
            times.append(time.perf_counter() - begin)
            torch.openreg.synchronize(0)
    assert min(times) < 20e-3, times  # 20 launches; each would wait 2 milliseconds
    assert second.tolist() == [1301] * 4
