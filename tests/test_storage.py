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
