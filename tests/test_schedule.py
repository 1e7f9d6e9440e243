"""``torch.openreg.schedule``, ``set_schedule`` and ``get_schedule``, and their environment variables."""

import pytest
import torch
from blocked_stream import held
from interpreter import execute

openreg = torch.openreg


@pytest.fixture(params=["async", "blocking"])
def before(request):
    with openreg.schedule(request.param):
        yield request.param


def test_schedules_nest_and_end_on_exception(before):
    with pytest.raises(KeyError), openreg.schedule("adversarial", seed=7):
        assert openreg.get_schedule() == ("adversarial", 7)
        with openreg.schedule("blocking"):
            assert openreg.get_schedule().name == "blocking"
        assert openreg.get_schedule() == ("adversarial", 7)
        raise KeyError
    assert openreg.get_schedule().name == before


def test_schedule_object_can_be_entered_twice(before):
    blocking = openreg.schedule("blocking")
    for _ in range(2):
        with blocking:
            assert openreg.get_schedule().name == "blocking"
        assert openreg.get_schedule().name == before


def test_invalid_schedules_raise(before):
    for name, seed, message in [
        ("later", 0, "invalid schedule 'later'"),
        ("adversarial", -1, "invalid seed -1"),
    ]:
        with pytest.raises(ValueError, match=message):
            openreg.set_schedule(name, seed)
        with pytest.raises(ValueError, match=message), openreg.schedule(name, seed):
            pass
    assert openreg.get_schedule().name == before


def test_schedule_determines_when_kernels_run():
    a = torch.ones(4, 4, device="openreg")
    stream = openreg.Stream()
    stream.wait_stream(openreg.current_stream())
    with openreg.stream(stream):
        with openreg.schedule("async"), held(stream):
            a.fmod(a)
            assert not stream.query()
        wrong = torch.full((1, 1), 9, device="openreg")
        with openreg.schedule("blocking"), pytest.raises(RuntimeError, match="out of bounds"):
            a.gather(0, wrong)


def test_initial_schedule_from_environment():
    source = "import torch; print(*torch.openreg.get_schedule())"
    assert execute(source) == "async 0"
    assert execute(source, OPENREG_SCHEDULE="adversarial", OPENREG_SEED="5") == "adversarial 5"
