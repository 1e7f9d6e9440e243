"""Behavior of torch.cuda that programs rely on, one test for each.

Sharing through queues of torch.multiprocessing is in tests/test_process.py.
"""

import pytest
import torch
import torch.nn.functional as F
from blocked_stream import held
from interpreter import execute, forked_child_error


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.ones(2, device="openreg:7"),
        lambda: torch.openreg.set_device(7),
        lambda: torch.openreg.synchronize(7),
        lambda: torch.openreg.Stream(7),
    ],
)
def test_an_invalid_device_index_is_an_accelerator_error(use):
    with pytest.raises(torch.AcceleratorError, match="7"):
        use()


def test_manual_seed_seeds_all_devices():
    torch.manual_seed(1)
    first = torch.randn(100, device="openreg"), torch.randn(100, device="openreg:1")
    torch.manual_seed(1)
    again = torch.randn(100, device="openreg"), torch.randn(100, device="openreg:1")
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], torch.randn(100, device="openreg"))


def test_cpu_generators_are_rejected():
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(3, device="openreg", generator=torch.Generator())


def test_the_state_of_a_generator_is_a_seed_and_an_offset():
    generator = torch.Generator("openreg").manual_seed(7)
    state = generator.get_state()
    assert state.dtype == torch.uint8 and state.numel() == 16 and state.device.type == "cpu"
    assert state.view(torch.int64).tolist() == [7, 0]
    torch.randn(100, device="openreg", generator=generator)
    assert generator.get_state().view(torch.int64)[1] > 0


def test_random_numbers_depend_on_launch_order_only():
    def numbers(streams: list[torch.Stream]) -> list[float]:
        torch.openreg.manual_seed(3)
        made = []
        for stream in streams:
            with torch.openreg.stream(stream):
                made.append(torch.rand(1000, device="openreg"))
        torch.openreg.synchronize()
        return [one.sum().item() for one in made]

    one, other = torch.openreg.Stream(), torch.openreg.Stream()
    assert numbers([one, one, one]) == numbers([other, one, other])


def test_a_thousand_floats_take_4096_bytes_and_stay_reserved_until_the_cache_is_emptied(clean_memory):
    allocated, reserved = torch.openreg.memory_allocated(), torch.openreg.memory_reserved()
    a = torch.empty(1000, device="openreg")
    assert torch.openreg.memory_allocated() == allocated + 4096
    assert torch.openreg.memory_reserved() == reserved + (2 << 20)
    del a
    assert torch.openreg.memory_allocated() == allocated
    assert torch.openreg.memory_reserved() == reserved + (2 << 20)
    torch.openreg.empty_cache()
    assert torch.openreg.memory_reserved() == reserved


def test_device_is_usable_after_out_of_memory():
    a = torch.ones(1000, device="openreg")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 50, dtype=torch.uint8, device="openreg")
    assert (a + a).sum().item() == 2000
    assert torch.empty(1 << 30, dtype=torch.uint8, device="openreg").numel() == 1 << 30


def test_a_stream_with_pending_work_is_not_complete():
    stream = torch.openreg.Stream()
    assert stream.query()
    with held(stream):
        assert not stream.query()
    assert stream.query()


def test_an_unrecorded_event_is_complete():
    assert torch.openreg.Event().query() and torch.Event("openreg").query()


def test_a_forked_child_cannot_use_an_initialized_device():
    error = forked_child_error(then='assert torch.ones(2, device="openreg").sum().item() == 2')
    assert "spawn" in error and "fork" in error


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_dtypes(dtype):
    a = torch.randn(4, 4, device="openreg")
    image = torch.randn(1, 2, 5, 5, device="openreg")
    with torch.autocast("openreg", dtype):
        for result in (F.softmax(a.to(dtype), -1), F.layer_norm(a.to(dtype), (4,)), a.to(dtype).exp()):
            assert result.dtype == torch.float32
        for result in (a @ a, torch.mm(a, a), torch.bmm(a[None], a[None]), F.linear(a, a)):
            assert result.dtype == dtype
        assert F.conv2d(image, torch.randn(3, 2, 3, 3, device="openreg")).dtype == dtype


def test_a_forked_child_cannot_run_operators_with_autograd():
    program = """
        import os, torch
        a = torch.ones(3, device="openreg", requires_grad=True)
        child = os.fork()
        if child == 0:
            try:
                a * 2
            except RuntimeError as error:
                os._exit(0 if "spawn" in str(error) else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    execute(program)
