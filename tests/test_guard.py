"""The device guard, with which PyTorch's device-generic code uses devices, streams and events."""

import torch


def test_an_operator_runs_on_the_device_of_its_tensors_and_restores_the_current_device():
    a = torch.ones(3, device="openreg:1")
    assert torch.openreg.current_device() == 0
    assert (a + a).device == torch.device("openreg:1")
    assert a.sum().item() == 3
    assert torch.openreg.current_device() == 0


def test_torch_stream_and_event_come_from_the_guard():
    stream = torch.Stream("openreg:1")
    event = torch.Event("openreg:1")
    with stream:
        assert torch.accelerator.current_device_index() == 1
        assert torch.accelerator.current_stream() == stream
        event.record()
    event.synchronize()
    assert event.query() and stream.query()
    assert torch.accelerator.current_device_index() == 0


def test_backward_runs_on_the_stream_of_its_forward():
    side = torch.openreg.Stream()
    leaf = torch.ones(4, device="openreg", requires_grad=True)
    torch.openreg.synchronize()
    seen = []
    with torch.openreg.stream(side):
        made = leaf * 2
        made.register_hook(lambda gradient: seen.append(torch.openreg.current_stream()))
        loss = made.sum()
    loss.backward()
    torch.openreg.synchronize()
    assert seen == [side]
    assert leaf.grad.tolist() == [2] * 4


def test_record_stream_reaches_the_allocator_through_the_guard():
    a = torch.ones(10, device="openreg")
    torch.Tensor.record_stream(a, torch.openreg.Stream())
    assert a.sum().item() == 10
