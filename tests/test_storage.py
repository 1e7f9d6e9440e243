"""Storages: resizing, sharing, DLPack, storage names."""

import copy
import io

import dlpack_producer
import numpy
import pytest
import torch
from blocked_stream import held
from torch.utils.dlpack import DLDeviceType


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


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x * 2,
        lambda x: x.add_(1),
        lambda x: x.fill_(1),
        lambda x: torch.cat([torch.ones(2, device="openreg"), x]),
        lambda x: torch._foreach_add([x], 1),
        lambda x: torch.ones(8, device="openreg").copy_(x),
        lambda x: x.copy_(torch.ones(8)),
        lambda x: x.to("openreg:1"),
        lambda x: x.cpu(),
        lambda x: x[0].item(),
        lambda x: x.nonzero(),
        lambda x: torch.mm(x.view(2, 4), x.view(4, 2)),
        lambda x: x.normal_(),
        lambda x: x.clone(),
        lambda x: repr(x),
        lambda x: torch.add(torch.ones(8, device="openreg"), 1, out=x),
        lambda x: x.view(2, 4).t().contiguous(),
        lambda x: x.to_sparse(),
    ],
)
def test_a_tensor_without_memory_raises(use):
    x = torch.ones(8, device="openreg")
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=r"without memory|is NULL|out of bounds"):
        use(x)
    torch.openreg.synchronize()
    assert x.view(2, 4).shape == (2, 4)  # views need no memory
    x.untyped_storage().resize_(32)
    assert x.fill_(3).sum().item() == 24


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


def test_set_out_of_bounds_raises():
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


def test_untyped_storage_can_be_created_on_the_device():
    storage = torch.UntypedStorage(64, device="openreg")
    assert storage.device == torch.device("openreg:0") and storage.nbytes() == 64


def test_copy_on_write_clones_are_separate():
    a = torch.arange(4.0, device="openreg")
    b = torch._lazy_clone(a)
    b.add_(1)
    assert a.tolist() == [0, 1, 2, 3]
    assert b.tolist() == [1, 2, 3, 4]


def test_backend_metadata_is_kept_by_detach_and_saved_with_the_tensor(tmp_path):
    a = torch.arange(4.0, device="openreg")
    assert torch.openreg.get_backend_meta(a) == {}
    torch.openreg.set_backend_meta(a, {"packed": True, "transposed": False})
    assert torch.openreg.get_backend_meta(a.detach()) == {"packed": True, "transposed": False}
    assert torch.openreg.get_backend_meta(a + 1) == {}
    torch.save(a, tmp_path / "a.pt")
    loaded = torch.load(tmp_path / "a.pt")
    assert loaded.device == a.device and loaded.tolist() == [0, 1, 2, 3]
    assert torch.openreg.get_backend_meta(loaded) == {"packed": True, "transposed": False}
    torch.openreg.set_backend_meta(a, {})
    assert torch.openreg.get_backend_meta(a) == {}


def test_backend_metadata_raises_for_other_devices_and_reserved_names():
    with pytest.raises(ValueError, match="got a tensor on cpu"):
        torch.openreg.set_backend_meta(torch.ones(1), {"packed": True})
    with pytest.raises(ValueError, match="'conj' is reserved"):
        torch.openreg.set_backend_meta(torch.ones(1, device="openreg"), {"conj": True})


# ---- DLPack


def test_dlpack_device_is_an_extension_device():
    assert torch.ones(2, device="openreg").__dlpack_device__() == (DLDeviceType.kDLExtDev, 0)
    assert torch.ones(2, device="openreg:1").__dlpack_device__() == (DLDeviceType.kDLExtDev, 1)
    assert torch.ones(2).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.uint8])
def test_dlpack_shares_memory(dtype):
    a = torch.ones(2, 3, device="openreg", dtype=dtype)
    for b in (
        torch.from_dlpack(a),
        torch.from_dlpack(a.__dlpack__()),
        torch.from_dlpack(a.__dlpack__(max_version=(1, 0))),
        torch.from_dlpack(torch.utils.dlpack.to_dlpack(a)),
        torch.from_dlpack(a.t()).t(),
    ):
        assert b.data_ptr() == a.data_ptr() and b.dtype == dtype and b.device == a.device
        b[1, 2] = 0
        assert a[1, 2].item() == 0
        a[1, 2] = 1


@pytest.mark.skipif(not hasattr(torch.utils.dlpack, "ReadOnlyTensorWrapper"), reason="torch 2.14 added it")
@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_dlpack_read_only(device):
    a = torch.ones(2, device=device)
    assert torch.equal(torch.from_dlpack(a.__dlpack__(read_only=False)), a)
    wrapper = torch.utils.dlpack.ReadOnlyTensorWrapper(a)
    assert wrapper.__dlpack_device__() == a.__dlpack_device__()
    assert "dltensor" in str(wrapper.__dlpack__(max_version=(1, 0)))


def test_dlpack_memory_lives_until_the_last_reference(clean_memory):
    before = torch.accelerator.memory_allocated()
    capsule = torch.arange(1000.0, device="openreg").__dlpack__()
    b = torch.from_dlpack(capsule)
    del capsule
    assert b[999].item() == 999
    b.add_(b)
    assert b.sum().item() == 999 * 1000
    del b
    torch.openreg.synchronize()
    assert torch.accelerator.memory_allocated() == before


def test_dlpack_copies_on_request():
    a = torch.arange(4.0, device="openreg")
    b = torch.from_dlpack(a, copy=True)
    assert b.data_ptr() != a.data_ptr() and b.tolist() == a.tolist()
    c = torch.from_dlpack(a, device="cpu")
    assert c.device.type == "cpu" and c.tolist() == a.tolist()
    d = torch.from_dlpack(torch.arange(4.0), device="openreg:0")
    assert d.device == torch.device("openreg:0") and d.tolist() == a.tolist()
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(a, device="cpu", copy=False)


def test_dlpack_raises_for_unsupported_tensors():
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(2, device="openreg", requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="conjugate"):
        torch.ones(2, device="openreg", dtype=torch.complex64).conj().__dlpack__()
    with pytest.raises(BufferError, match="not current"):
        torch.ones(2, device="openreg:1").__dlpack__()
    with pytest.raises(TypeError, match="stream"):
        torch.ones(2, device="openreg").__dlpack__(stream="0")


@pytest.mark.host_engine  # the CPU fallback synchronizes
def test_dlpack_orders_the_consumer_stream():
    a = torch.zeros(1000, device="openreg")
    side, preserved = torch.openreg.Stream(), torch.openreg.Stream()
    torch.openreg.synchronize()
    with torch.openreg.schedule("async"), held(torch.openreg.current_stream()):
        a.fill_(2)
        a.__dlpack__(stream=-1)
        assert preserved.query()
        capsule = a.__dlpack__(stream=side.native_handle)
        with torch.openreg.stream(side):
            total = torch.from_dlpack(capsule).sum()
        assert not side.query() and preserved.query()
    side.synchronize()
    assert total.item() == 2000
    with torch.openreg.stream(side):
        a.__dlpack__(stream=None)  # the default stream
    with pytest.raises(RuntimeError, match="is not a stream"):
        a.__dlpack__(stream=12345)


class Foreign:
    """A tensor of another library, in runtime memory that torch did not allocate."""

    def __init__(self, values: list[float], device: int = 0) -> None:
        self.device = device
        self.array = dlpack_producer.device_array(values, device)
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 12, self.device

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> object:
        self.streams.append(stream)
        return self.array.capsule()


def test_from_dlpack_passes_the_current_stream_to_the_producer():
    foreign = Foreign([1.0, 2.0, 3.0])
    side = torch.openreg.Stream()
    with torch.openreg.stream(side):
        a = torch.from_dlpack(foreign)
        assert a.device == torch.device("openreg:0") and (a * 2).tolist() == [2, 4, 6]
    assert foreign.streams == [side.native_handle]
    del a
    torch.openreg.synchronize()
    assert foreign.array.released == 1


def test_tensor_over_external_device_memory():
    foreign = Foreign([1.0, 2.0, 3.0, 4.0], device=1)
    a = torch.from_dlpack(foreign)
    assert a.device == torch.device("openreg:1")
    a.mul_(10)
    assert (a + 1).tolist() == [11, 21, 31, 41]
    assert a.view(2, 2)[1].tolist() == [30, 40]
    with pytest.raises(RuntimeError, match=r"cannot be resized|not resizable"):
        a.resize_(100)


def test_from_dlpack_of_a_producer_without_stream_argument():
    class Plain(Foreign):
        def __dlpack__(self) -> object:
            return self.array.capsule()

    assert torch.from_dlpack(Plain([1.0, 2.0])).tolist() == [1, 2]


def test_numpy_and_array_interfaces_raise():
    a = torch.ones(3, device="openreg")
    with pytest.raises(TypeError, match=r"can't convert openreg:0 device type tensor to numpy"):
        a.numpy()
    with pytest.raises(TypeError, match=r"Tensor.cpu\(\)"):
        numpy.asarray(a)
    with pytest.raises(AttributeError, match="__array_interface__"):
        getattr(a, "__array_interface__")  # noqa: B009
    with pytest.raises(AttributeError, match="non-CUDA tensor"):
        getattr(a, "__cuda_array_interface__")  # noqa: B009
    assert a.numpy(force=True).tolist() == [1, 1, 1]


# ---- Custom storage


def test_every_storage_of_the_device_can_have_a_name():
    made = {
        "empty": torch.empty(3, device="openreg"),
        "operator": torch.ones(3, device="openreg") + 1,
        "copied": torch.ones(3).to("openreg"),
        "untyped": torch.empty(0, device="openreg").set_(torch.UntypedStorage(12, device="openreg")),
        "waits": torch.ones(3, device="openreg").nonzero(),
        "gradient": torch.ones(3, device="openreg", requires_grad=True).exp().detach(),
        "loaded": copy.deepcopy(torch.ones(3, device="openreg")),
    }
    for name, tensor in made.items():
        assert torch.openreg.get_storage_name(tensor) == ""
        torch.openreg.set_storage_name(tensor, name)
    for name, tensor in made.items():
        assert torch.openreg.get_storage_name(tensor[1:]) == name
        assert torch.openreg.get_storage_name(tensor.untyped_storage()) == name
    with pytest.raises(ValueError, match="this storage is on cpu"):
        torch.openreg.set_storage_name(torch.ones(1), "mine")


def test_module_to_keeps_parameter_objects():
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


@pytest.mark.host_engine  # sparse tensors
def test_data_assignment_requires_the_same_layout():
    x = torch.ones(2, 2)
    x.data = torch.zeros(3, device="openreg")
    assert x.is_openreg and x.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = torch.eye(2, device="openreg").to_sparse()


def test_lazy_clone_allocates_on_its_own_device():
    a = torch.zeros(4, device="openreg:1")
    b, c = torch._lazy_clone(a), torch._lazy_clone(a)
    assert torch.openreg.current_device() == 0
    before = torch.openreg.memory_allocated(0)
    b.copy_(torch.ones(4, device="openreg:0"))
    c.add_(2)
    assert (a.tolist(), b.tolist(), c.tolist()) == ([0] * 4, [1] * 4, [2] * 4)
    assert torch.openreg.memory_allocated(0) <= before


def test_last_owner_of_lazily_cloned_memory_does_not_copy(clean_memory):
    before = torch.openreg.memory_allocated()
    a = torch.arange(3.0, device="openreg")
    address = torch.openreg.memory_snapshot()[0]["address"]
    torch._lazy_clone(a)
    a.add_(1)
    assert a.tolist() == [1, 2, 3] and a.data_ptr() == address
    b = torch._lazy_clone(a)
    del a
    assert b.data_ptr() == address  # data_ptr() requests write access
    b.record_stream(torch.openreg.Stream())
    assert torch.load(saved(b)).tolist() == [1, 2, 3]
    del b
    torch.openreg.synchronize()
    torch.openreg.empty_cache()
    assert torch.openreg.memory_allocated() == before


def saved(tensor: torch.Tensor) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return file
