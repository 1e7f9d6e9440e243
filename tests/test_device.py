"""Devices: count, current device, properties, and errors."""

import threading

import pytest
import torch


def test_repr_shows_the_device():
    assert repr(torch.tensor(1, device="openreg")) == "tensor(1, device='openreg:0')"


@pytest.mark.simulated
def test_two_devices_are_simulated():
    assert torch.openreg.device_count() == 2


def test_count_and_availability():
    assert torch.openreg.is_available()
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == torch.openreg.device_count() > 0
    assert torch.accelerator.current_accelerator() == torch.device("openreg")


def test_set_device_accepts_an_index_a_string_or_a_device():
    for name in (1, "openreg:1", torch.device("openreg", 1)):
        torch.openreg.set_device(name)
        assert torch.openreg.current_device() == 1
        assert torch.empty(1, device="openreg").device == torch.device("openreg:1")
        torch.openreg.set_device(0)
    torch.openreg.set_device(-1)
    assert torch.openreg.current_device() == 0


def test_device_contexts_restore_the_device_after_an_exception():
    with pytest.raises(KeyError), torch.openreg.device(1):
        assert torch.openreg.current_device() == 1
        with torch.openreg.device("openreg:0"):
            assert torch.openreg.current_device() == 0
        assert torch.openreg.current_device() == 1
        raise KeyError
    assert torch.openreg.current_device() == 0
    with torch.openreg.device(None):
        assert torch.openreg.current_device() == 0
    with torch.openreg.device_of(torch.empty(1, device="openreg:1")):
        assert torch.openreg.current_device() == 1
    with torch.openreg.device_of(torch.empty(1)):
        assert torch.openreg.current_device() == 0
    with torch.accelerator.device_index(1):
        assert torch.accelerator.current_device_index() == 1
    assert torch.accelerator.current_device_index() == 0


def test_the_current_device_is_thread_local():
    seen = []
    torch.openreg.set_device(1)
    thread = threading.Thread(target=lambda: seen.append(torch.openreg.current_device()))
    thread.start()
    thread.join()
    torch.openreg.set_device(0)
    assert seen == [0]


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.openreg.set_device(7),
        lambda: torch.openreg.synchronize(7),
        lambda: torch.empty(1, device="openreg:7"),
        lambda: torch.openreg.Stream(7),
        lambda: torch.openreg.current_stream(7),
        lambda: torch.accelerator.set_device_index(7),
        lambda: torch.openreg.device(7).__enter__(),
        lambda: torch.ones(1).to("openreg:7"),
    ],
)
def test_the_error_for_an_invalid_index_has_the_index_and_the_count(use):
    with pytest.raises(torch.AcceleratorError, match=rf"index 7 .* {torch.openreg.device_count()} devices"):
        use()
    assert torch.ones(2, device="openreg").sum().item() == 2


def test_set_device_rejects_other_device_types():
    with pytest.raises(ValueError, match="Expected a openreg device, but got: cpu"):
        torch.openreg.set_device("cpu")


def test_a_device_context_is_accepted_as_a_device():
    torch.openreg.synchronize(torch.openreg.device(1))
    assert torch.openreg.current_stream(torch.openreg.device(1)).device_index == 1


@pytest.mark.simulated
def test_properties():
    properties = torch.openreg.get_device_properties(1)
    assert properties.total_memory == 8 << 30
    assert properties.name == torch.openreg.get_device_name("openreg:1")
    assert properties.name in repr(properties)


def test_properties_of_one_device_compare_and_hash_equal():
    properties = torch.openreg.get_device_properties(0)
    assert properties == torch.openreg.get_device_properties("openreg:0")
    assert (
        len({properties, torch.openreg.get_device_properties(), torch.openreg.get_device_properties(1)}) == 2
    )


@pytest.mark.parametrize("index", [7, -1])
def test_properties_of_an_invalid_device_raise_as_in_torch_cuda(index):
    count = torch.openreg.device_count()
    with pytest.raises(AssertionError, match=f"Invalid device id: index {index} .* {count} devices"):
        torch.openreg.get_device_properties(index)


def test_versions_and_peers():
    properties = torch.openreg.get_device_properties()
    assert torch.openreg.get_device_capability("openreg:1") == (properties.major, properties.minor)
    assert torch.openreg.can_device_access_peer(0, "openreg:1")
    assert not torch.openreg.can_device_access_peer(1, 1)
    with pytest.raises(torch.AcceleratorError, match="out of range"):
        torch.openreg.can_device_access_peer(0, 9)
    assert torch.openreg.is_bf16_supported() and not torch.openreg.is_tf32_supported()


def test_deprecated_functions_of_torch_accelerator():
    with pytest.warns(FutureWarning):
        torch.accelerator.set_device_idx(1)
    with pytest.warns(FutureWarning):
        assert torch.accelerator.current_device_idx() == 1
    torch.openreg.set_device(0)


def test_capability_lists_every_dtype():
    dtypes = torch.accelerator.get_device_capability("openreg:0")["supported_dtypes"]
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
        assert dtype in dtypes


def test_initialization():
    torch.openreg.init()
    assert torch.openreg.is_initialized()
    assert not torch.openreg._is_in_bad_fork()


def test_methods_and_properties_named_after_the_device():
    tensor = torch.ones(3).openreg()
    assert tensor.is_openreg and not torch.ones(1).is_openreg
    assert torch.ones(3).openreg(1).device.index == 1
    module = torch.nn.Linear(2, 2).openreg()
    assert all(parameter.is_openreg for parameter in module.parameters())


def test_tensor_types_accept_a_device():
    assert torch.openreg.FloatTensor(2, device=1).get_device() == 1
    assert torch.openreg.IntTensor([3], device="openreg:1").get_device() == 1
    with torch.openreg.device(1):
        assert torch.openreg.FloatTensor(2).get_device() == 1
        assert torch.openreg.FloatTensor(2, device=None).get_device() == 1
        assert torch.openreg.FloatTensor(2, device=0).get_device() == 0
    with pytest.raises(ValueError, match="Expected a openreg device, but got: cpu"):
        torch.openreg.FloatTensor(2, device="cpu")


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_typed_storages(tmp_path):
    storage = torch.openreg.IntStorage(4).fill_(7)
    assert storage.device.type == "openreg" and storage.tolist() == [7] * 4
    assert isinstance(storage, torch.openreg.IntStorage) and not isinstance(storage, torch.IntStorage)
    assert not isinstance(storage, torch.openreg.FloatStorage)
    assert storage.type() == "torch.openreg.IntStorage"
    assert isinstance(torch.ones(2).storage().openreg().double(), torch.openreg.DoubleStorage)
    assert isinstance(torch.ones(2, device="openreg").storage().cpu(), torch.FloatStorage)
    torch.save(storage, tmp_path / "storage")
    loaded = torch.load(tmp_path / "storage", weights_only=False)
    assert isinstance(loaded, torch.openreg.IntStorage) and loaded.tolist() == [7] * 4
    with pytest.raises(RuntimeError, match="from_buffer: Not available for openreg storage"):
        torch.openreg.ByteStorage.from_buffer(b"12")


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_typed_storages_have_the_dtypes_of_torch_cuda():
    for kind, dtype in {
        torch.openreg.DoubleStorage: torch.float64,
        torch.openreg.FloatStorage: torch.float32,
        torch.openreg.HalfStorage: torch.float16,
        torch.openreg.BFloat16Storage: torch.bfloat16,
        torch.openreg.LongStorage: torch.int64,
        torch.openreg.IntStorage: torch.int32,
        torch.openreg.ShortStorage: torch.int16,
        torch.openreg.CharStorage: torch.int8,
        torch.openreg.ByteStorage: torch.uint8,
        torch.openreg.BoolStorage: torch.bool,
        torch.openreg.ComplexDoubleStorage: torch.complex128,
        torch.openreg.ComplexFloatStorage: torch.complex64,
    }.items():
        storage = kind(3)
        assert storage.dtype == dtype and storage.size() == 3 and isinstance(storage, kind)


def test_tensor_types():
    tensor = torch.openreg.FloatTensor(2, 3)
    assert tensor.shape == (2, 3) and tensor.dtype == torch.float32 and tensor.is_openreg
    assert isinstance(tensor, torch.openreg.FloatTensor)
    assert not isinstance(tensor, torch.openreg.IntTensor)
    assert not isinstance(torch.ones(1), torch.openreg.FloatTensor)
    assert torch.openreg.LongTensor([1, 2]).tolist() == [1, 2]
    assert tensor.type() == "torch.openreg.FloatTensor"
    assert torch.ones(2).type("torch.openreg.HalfTensor").dtype == torch.float16
    for kind, dtype in {
        torch.openreg.DoubleTensor: torch.float64,
        torch.openreg.BFloat16Tensor: torch.bfloat16,
        torch.openreg.ShortTensor: torch.int16,
        torch.openreg.CharTensor: torch.int8,
        torch.openreg.ByteTensor: torch.uint8,
        torch.openreg.BoolTensor: torch.bool,
    }.items():
        assert kind(2).dtype == dtype and isinstance(kind(2), kind)


@pytest.mark.parametrize("index", [9, 100, 200, 256, 257])
@pytest.mark.parametrize(
    "use",
    [
        lambda index: torch.openreg.set_device(index),
        lambda index: torch.openreg.synchronize(index),
        lambda index: torch.openreg.memory_stats(index),
        lambda index: torch.openreg.device(index).__enter__(),
        lambda index: torch.openreg.Stream(index),
        lambda index: torch.openreg.use_mem_pool(torch.openreg.MemPool(), index).__enter__(),
    ],
)
def test_a_large_index_is_not_truncated(use, index):
    """torch stores an index in one byte: 256 must not become device 0."""
    torch.openreg.init()
    with pytest.raises(torch.AcceleratorError, match=f"device index {index} is out of range"):
        use(index)
    assert torch.openreg.current_device() == 0
