"""Serialization: objects saved on one device load on any device."""

import copy
import io
import mmap
import pickle

import pytest
import torch
from interpreter import execute
from torch import nn
from torch.utils.serialization import config

openreg = torch.openreg


def saved(value, **options) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


def on(device: str) -> torch.Tensor:
    return torch.arange(6.0, device=device).reshape(2, 3)


# ---- map_location


FORMS = {
    "none": (None, "openreg:1"),
    "a name": ("cpu", "cpu"),
    "a name without an index": ("openreg", "openreg:0"),
    "a name with an index": ("openreg:1", "openreg:1"),
    "a device": (torch.device("openreg", 0), "openreg:0"),
    "a dictionary": ({"openreg:1": "openreg:0"}, "openreg:0"),
    "a dictionary without the device": ({"openreg:0": "cpu"}, "openreg:1"),
    "a function that leaves it on the host": (lambda storage, location: storage, "cpu"),
    "a function that moves it": (lambda storage, location: storage.to(device="openreg:0"), "openreg:0"),
    "a function that returns None": (lambda storage, location: None, "openreg:1"),
    "meta": ("meta", "meta"),
}


@pytest.mark.parametrize("zip_file", [True, False], ids=["zip", "old format"])
@pytest.mark.parametrize("weights_only", [True, False], ids=["weights only", "all objects"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_map_location(form, weights_only, zip_file):
    location, expected = FORMS[form]
    file = saved(on("openreg:1"), _use_new_zipfile_serialization=zip_file)
    loaded = torch.load(file, map_location=location, weights_only=weights_only)
    assert loaded.device == torch.device(expected) and loaded.shape == (2, 3)
    if expected != "meta":
        assert torch.equal(loaded.cpu(), on("cpu"))


def test_map_location_function_receives_the_saved_location():
    seen = []
    torch.load(saved([on("openreg:1"), on("cpu")]), map_location=lambda s, where: seen.append(where) or s)
    assert seen == ["openreg:1", "cpu"]


def test_map_location_from_the_cpu_to_the_device():
    assert torch.load(saved(on("cpu")), map_location="openreg").device == torch.device("openreg", 0)
    assert torch.load(saved(on("cpu"))).device.type == "cpu"
    with torch.device("openreg"):  # applies to new tensors, not to loaded ones
        assert torch.load(saved(on("cpu"))).device.type == "cpu"


def test_map_location_without_an_index_is_the_current_device():
    with openreg.device(1):
        assert torch.load(saved(on("cpu")), map_location="openreg").device.index == 1


def test_map_location_to_an_invalid_device_raises():
    with pytest.raises(RuntimeError, match=r"device 9 but torch\.openreg\.device_count\(\) is 2"):
        torch.load(saved(on("openreg")), map_location="openreg:9")


def test_load_without_the_backend_raises_unless_mapped_to_the_cpu(tmp_path):
    file = tmp_path / "tensor.pt"
    torch.save(on("openreg"), file)
    message = execute(
        f"""
        import torch
        try:
            torch.load({str(file)!r})
        except Exception as error:
            print(error)
        assert torch.load({str(file)!r}, map_location="cpu").sum() == 15
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert "don't know how to restore data location" in message and "openreg:0" in message


# ---- Contents


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.complex64,
        torch.int8,
        torch.bool,
        torch.float8_e4m3fn,
    ],
    ids=str,
)
def test_dtypes(dtype):
    x = torch.tensor([0, 1, 1, 0], device="openreg").to(dtype)
    loaded = torch.load(saved(x))
    assert loaded.dtype == dtype and loaded.is_openreg
    assert torch.equal(loaded.cpu().to(torch.complex64), x.cpu().to(torch.complex64))


def test_shared_storage_stays_shared():
    x = on("openreg")
    whole, row, column = torch.load(saved([x, x[1], x[:, 0]]))
    whole.zero_()
    assert row.tolist() == [0, 0, 0] and column.tolist() == [0, 0]
    assert row.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()


def test_strides_requires_grad_and_conj_bit_are_kept():
    x = torch.randn(2, 3, 4, 5, device="openreg").to(memory_format=torch.channels_last)
    assert torch.load(saved(x)).stride() == x.stride()
    z = torch.tensor([1 + 2j], device="openreg")
    assert torch.load(saved(z.conj())).is_conj() and torch.load(saved(z.conj())).tolist() == [1 - 2j]
    leaf = on("openreg").requires_grad_()
    assert torch.load(saved(leaf)).requires_grad
    parameter = torch.load(saved(nn.Parameter(on("openreg"))))
    assert isinstance(parameter, nn.Parameter) and parameter.is_openreg


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_sparse_tensors():
    for sparse in (
        torch.eye(3, device="openreg").to_sparse(),
        torch.eye(3, device="openreg").to_sparse_csr(),
    ):
        loaded = torch.load(saved(sparse))
        assert loaded.layout == sparse.layout and loaded.is_openreg
        assert torch.equal(loaded.to_dense().cpu(), torch.eye(3))


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages():
    storage = torch.load(saved(on("openreg:1").untyped_storage()), weights_only=False)
    assert storage.device == torch.device("openreg", 1) and storage.nbytes() == 24


def test_save_waits_for_pending_work():
    x = torch.zeros(1000, device="openreg")
    for _ in range(50):
        x.add_(1)
    assert torch.load(saved(x)).eq(50).all().item()


def test_saving_through_pinned_memory():
    with config.patch("save.use_pinned_memory_for_d2h", True):
        file = saved(on("openreg"))
    assert torch.load(file).tolist() == on("cpu").tolist()


def test_skip_data():
    with torch.serialization.skip_data():
        file = saved(on("openreg"))
    assert torch.load(file).shape == (2, 3)


# ---- Memory-mapped files


@pytest.mark.parametrize("location", [None, "cpu", "openreg:0"])
def test_mmap(tmp_path, location):
    file = tmp_path / "tensor.pt"
    torch.save({"a": on("openreg:1"), "b": on("cpu")}, file)
    loaded = torch.load(file, mmap=True, map_location=location)
    assert str(loaded["a"].device) == (location or "openreg:1")
    assert str(loaded["b"].device) == (location or "cpu")
    assert all(torch.equal(t.cpu(), on("cpu")) for t in loaded.values())
    loaded["a"].add_(1)  # the file is not changed
    assert torch.load(file, map_location="cpu")["a"].sum() == 15


def test_mmap_by_default(tmp_path):
    file = tmp_path / "tensor.pt"
    torch.save({"a": on("openreg"), "b": on("cpu")}, file)
    with config.patch("load.mmap", True), torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        loaded = torch.load(file)
        loaded["a"].add_(1)  # on the device: a copy
        loaded["b"].add_(1)  # on the host: the file, because of MAP_SHARED
    again = torch.load(file)
    assert again["a"].sum().item() == 15 and again["b"].sum().item() == 21


# ---- Copies


def test_pickle_and_deepcopy():
    x = on("openreg:1").requires_grad_()
    for copied in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert copied.device == x.device and copied.requires_grad and torch.equal(copied, x)
    deep = copy.deepcopy(x.detach())
    deep.zero_()
    assert x.sum().item() == 15
    pair = copy.deepcopy([x.detach(), x.detach()[0]])
    pair[0].zero_()
    assert pair[1].tolist() == [0, 0, 0]


# ---- Models and optimizers


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)
        self.tied = self.layer.weight

    def forward(self, x):
        return self.norm(self.layer(x))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, device: str) -> float:
    optimizer.zero_grad()
    loss = model(torch.linspace(-1, 1, 12).reshape(4, 3).to(device)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize(
    "source, target", [("openreg", "cpu"), ("cpu", "openreg"), ("openreg:0", "openreg:1")]
)
def test_state_dicts_cross_devices(source, target):
    torch.manual_seed(0)
    model = Small().to(source)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    train(model, optimizer, source)
    file = saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    state = torch.load(file, map_location=target)
    other = Small().to(target)
    other_optimizer = torch.optim.AdamW(other.parameters(), lr=0.1)
    other.load_state_dict(state["model"])
    other_optimizer.load_state_dict(state["optimizer"])
    assert all(
        t.device == torch.device(target) or t.device.type == target for t in other.state_dict().values()
    )
    assert other.tied is other.layer.weight
    for _ in range(3):
        a, b = train(model, optimizer, source), train(other, other_optimizer, target)
        assert a == pytest.approx(b, rel=1e-4)


def test_load_state_dict_with_assign():
    model = Small().openreg()
    with torch.device("meta"):
        empty = Small()
    empty.load_state_dict(torch.load(saved(model.state_dict())), assign=True)
    assert empty.layer.weight.is_openreg and torch.equal(empty.layer.weight, model.layer.weight)


def test_whole_models():
    model = Small().openreg()
    loaded = torch.load(saved(model), weights_only=False, map_location="openreg:1")
    assert {p.device.index for p in loaded.parameters()} == {1}
    assert all(p.is_openreg for p in copy.deepcopy(model).parameters())


# ---- safetensors


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip(
        "safetensors", reason="safetensors is not installed: make test-libraries"
    )
    from safetensors.torch import load_file, load_model, save_file, save_model

    file = tmp_path / "tensors.safetensors"
    save_file({"a": on("openreg:1"), "b": on("openreg").bfloat16()}, file)
    assert all(t.device.type == "cpu" for t in load_file(file).values())
    for index in (0, 1):  # safetensors accepts an index, or a name from a fixed list without openreg
        loaded = load_file(file, device=index)
        assert {t.device for t in loaded.values()} == {torch.device("openreg", index)}
        assert torch.equal(loaded["a"].cpu(), on("cpu")) and loaded["b"].dtype == torch.bfloat16
    with safetensors.safe_open(file, "pt", device=1) as opened:
        assert opened.get_slice("a")[:1].tolist() == [[0, 1, 2]]
        assert opened.get_tensor("a").device == torch.device("openreg", 1)
    with pytest.raises(safetensors.SafetensorError, match="device openreg is invalid"):
        load_file(file, device="openreg")  # if this stops raising, update the guide
    model, other = nn.Linear(3, 2).openreg(), nn.Linear(3, 2).openreg()
    save_model(model, str(tmp_path / "model.safetensors"))
    load_model(other, tmp_path / "model.safetensors")
    assert torch.equal(model.weight, other.weight)
