"""``torch.openreg.check_leaks``: memory that is still in use at the end of a block, with the lines that allocated it."""

import gc
import threading

import pytest
import torch

kept: list[torch.Tensor] = []


@pytest.fixture(autouse=True)
def nothing_kept():
    torch.openreg.init()
    yield
    kept.clear()


def test_memory_that_stays_in_use():
    with pytest.raises(torch.openreg.LeakError) as raised, torch.openreg.check_leaks():
        kept.append(torch.empty(3, 5, device="openreg"))  # the leak
        torch.empty(100, device="openreg")
    (leak,) = raised.value.leaks
    assert leak.device == 0 and leak.nbytes == 60 and leak.tensor == "float32 of shape (3, 5)"
    assert "test_leaks.py:" in leak.line and leak.line.endswith("# the leak")
    assert "60 bytes of device memory are still in use" in str(raised.value)
    assert "60 bytes on openreg:0, a tensor float32 of shape (3, 5), allocated at " in str(raised.value)


def test_memory_of_before_does_not_count():
    kept.append(torch.empty(10, device="openreg"))
    with torch.openreg.check_leaks() as block:
        del kept[0]
        torch.empty(10, device="openreg") + 1
    assert block.leaks == []


def test_memory_at_an_address_that_was_in_use_before():
    x = torch.empty(10, device="openreg")
    address = x.data_ptr()
    with torch.openreg.check_leaks(raise_error=False) as block:
        del x
        kept.append(torch.empty(10, device="openreg"))
        assert kept[0].data_ptr() == address
    assert [leak.nbytes for leak in block.leaks] == [40]


def test_the_line_of_an_operator_is_outside_of_torch():
    layer = torch.nn.Linear(4, 4).openreg()
    with torch.openreg.check_leaks(raise_error=False) as block:
        kept.append(layer(torch.ones(2, 4, device="openreg")).detach())
    assert [leak.line.rpartition(": ")[2] for leak in block.leaks] == [
        'kept.append(layer(torch.ones(2, 4, device="openreg")).detach())'
    ]


def test_reference_cycles_are_collected():
    gc.disable()
    try:
        with torch.openreg.check_leaks():
            cycle: list = [torch.empty(10, device="openreg")]
            cycle.append(cycle)
            del cycle
    finally:
        gc.enable()


def test_other_threads_and_devices_count():
    def allocate() -> None:
        kept.append(torch.empty(2, device="openreg:1"))

    with torch.openreg.check_leaks(raise_error=False) as block:
        thread = threading.Thread(target=allocate)
        thread.start()
        thread.join()
    assert [(leak.device, leak.nbytes) for leak in block.leaks] == [(1, 8)]


def test_an_exception_is_passed_on():
    with pytest.raises(KeyError), torch.openreg.check_leaks():
        kept.append(torch.empty(2, device="openreg"))
        raise KeyError


def test_blocks_nest():
    with torch.openreg.check_leaks(raise_error=False) as outer:
        kept.append(torch.empty(1, device="openreg"))
        with torch.openreg.check_leaks(raise_error=False) as inner:
            kept.append(torch.empty(2, device="openreg"))
        kept.append(torch.empty(3, device="openreg"))
    assert [leak.nbytes for leak in inner.leaks] == [8]
    assert [leak.nbytes for leak in outer.leaks] == [4, 8, 12]
    assert all(leak.line for leak in outer.leaks)


def test_a_recording_of_the_program_continues():
    torch.openreg.memory._record_memory_history("all")
    try:
        with torch.openreg.check_leaks(raise_error=False) as block:
            kept.append(torch.empty(1, device="openreg"))
        assert block.leaks[0].line
        kept.append(torch.empty(1, device="openreg"))
        storage = kept[1].untyped_storage().data_ptr()
        assert torch.openreg.memory._allocation_traceback(storage)
    finally:
        torch.openreg.memory._record_memory_history(None)


def test_the_recording_ends_with_the_block():
    with torch.openreg.check_leaks():
        pass
    kept.append(torch.empty(1, device="openreg"))
    assert torch.openreg.memory._allocation_traceback(kept[0].untyped_storage().data_ptr()) is None


def test_training_does_not_leak():
    def train() -> None:
        model = torch.nn.Linear(4, 4).openreg()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 4, device="openreg")).sum().backward()
            optimizer.step()
        torch.openreg.synchronize()

    with torch.openreg.check_leaks():
        train()
