"""Storages: growing, shrinking, sharing."""

import pytest
import torch


def test_resize_grows_and_keeps_the_contents():
    a = torch.arange(4.0, device="openreg")
    a.resize_(8)
    assert a.shape == (8,) and a[:4].tolist() == [0, 1, 2, 3]
    a.resize_(2, 2)
    assert a.tolist() == [[0, 1], [2, 3]]
    a.resize_(0)
    assert a.numel() == 0
    a.resize_(2, 3, 4, 5, memory_format=torch.channels_last)
    assert a.is_contiguous(memory_format=torch.channels_last)


def test_untyped_storage_resizes_to_zero_and_back():
    a = torch.arange(4.0, device="openreg")
    storage = a.untyped_storage()
    storage.resize_(0)
    assert storage.size() == 0
    storage.resize_(16)
    a.fill_(7)
    assert a.tolist() == [7] * 4


def test_set_shares_the_storage():
    a = torch.arange(6.0, device="openreg")
    b = torch.empty(0, device="openreg")
    b.set_(a)
    b[0] = 9
    assert a[0].item() == 9
    b.set_(a.untyped_storage(), 2, (2,), (1,))
    assert b.tolist() == [2, 3]
    b.set_(a.untyped_storage())
    assert b.shape == (6,)
    b.set_()
    assert b.numel() == 0
    with pytest.raises(RuntimeError, match="device"):
        b.set_(torch.ones(2).untyped_storage())


def test_set_out_of_bounds_is_refused():
    a = torch.arange(6.0, device="openreg")
    with pytest.raises(RuntimeError, match=r"negative|offset"):
        a.set_(a.untyped_storage(), -1, (2,), (1,))
    assert a.tolist() == list(range(6))


def test_views_share_memory_and_as_strided_checks_bounds():
    a = torch.arange(12.0, device="openreg")
    v = a.view(3, 4)
    v[1, 1] = 100
    assert a[5].item() == 100
    assert v.data_ptr() == a.data_ptr()
    assert a.as_strided((2, 2), (4, 1), 1).tolist() == [[1, 2], [100, 6]]
    assert torch.equal(a.unfold(0, 4, 4).cpu(), v.cpu())
    with pytest.raises(RuntimeError, match="out of bounds"):
        a.as_strided((100,), (1,))
    with pytest.raises(RuntimeError, match="invalid for input of size 12"):
        a.view(5)


def test_untyped_storage_can_be_made_on_the_device():
    storage = torch.UntypedStorage(64, device="openreg")
    assert storage.device == torch.device("openreg:0") and storage.nbytes() == 64


def test_copy_on_write_clones_are_separate():
    a = torch.arange(4.0, device="openreg")
    b = torch._lazy_clone(a)
    b.add_(1)
    assert a.tolist() == [0, 1, 2, 3]
    assert b.tolist() == [1, 2, 3, 4]


def test_a_module_that_moves_keeps_its_parameters():
    layer = torch.nn.Linear(3, 3)
    layer.tied, weight = layer.weight, layer.weight
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    for device in ("openreg:0", "openreg:1", "cpu", "openreg:0"):
        layer.to(device)
        assert layer.weight is layer.tied is weight
        assert weight.device == torch.device(device) and isinstance(weight, torch.nn.Parameter)
        optimizer.zero_grad()
        before = weight.detach().cpu().clone()
        layer(torch.ones(1, 3, device=device)).sum().backward()
        assert weight.grad.device == torch.device(device)
        optimizer.step()
        torch.testing.assert_close(weight.detach().cpu(), before - 1)


def test_the_gradient_moves_with_the_parameter():
    layer = torch.nn.Linear(2, 1, bias=False)
    layer(torch.ones(1, 2)).sum().backward()
    layer.openreg()
    assert layer.weight.grad.is_openreg and layer.weight.grad.tolist() == [[1, 1]]


def test_only_tensors_of_one_layout_take_each_others_place():
    x = torch.ones(2, 2)
    x.data = torch.zeros(3, device="openreg")
    assert x.is_openreg and x.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = torch.eye(2, device="openreg").to_sparse()
