"""Copy-on-write storages (``torch._lazy_clone``): copies are on the source's device and in stream order."""

import pytest
import torch
from blocked_stream import held

pytestmark = pytest.mark.usefixtures("each_schedule")


def values(tensor: torch.Tensor) -> list[float]:
    return tensor.cpu().tolist()


WRITES = {
    "data_ptr": lambda tensor: tensor.data_ptr(),
    "storage": lambda tensor: tensor.untyped_storage().data_ptr(),
    "operator": lambda tensor: tensor.add_(0),
    "out": lambda tensor: torch.mul(tensor, 1, out=tensor),
    "copy": lambda tensor: tensor.copy_(tensor.cpu()),
    "peer copy": lambda tensor: tensor.copy_(tensor.to("openreg:0")),
    "masked_fill": lambda tensor: tensor.masked_fill_(tensor > 100, 0),
    "dlpack": lambda tensor: torch.utils.dlpack.to_dlpack(tensor),
}


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("which", ["source", "clone"])
@pytest.mark.parametrize("write", WRITES)
def test_copy_is_allocated_on_the_device_of_the_storage(write, which, current, clean_memory):
    source = torch.arange(4.0, device="openreg:1")
    clone = torch._lazy_clone(source)
    used, other = torch.openreg.memory_allocated(1), torch.openreg.memory_allocated(0)
    written = source if which == "source" else clone
    with torch.openreg.device(current):
        WRITES[write](written)
        assert torch.openreg.current_device() == current
    torch.openreg.synchronize(0)
    torch.openreg.synchronize(1)
    assert torch.openreg.memory_allocated(1) == used + 512
    assert torch.openreg.memory_allocated(0) == other
    assert written.device == torch.device("openreg:1") == written.untyped_storage().device
    assert values(source) == values(clone) == [0, 1, 2, 3]
    assert source.data_ptr() != clone.data_ptr()


def test_untyped_storage():
    storage = torch.UntypedStorage(16, device="openreg:1")
    a = torch.empty(0, device="openreg:1").set_(storage).fill_(1)
    b = torch._lazy_clone(a)
    used = torch.openreg.memory_allocated(1)
    b.data_ptr()
    assert torch.openreg.memory_allocated(1) == used + 512 and values(b) == [1] * 4


@pytest.mark.parametrize("current", [0, 1])
def test_copy_is_ordered_with_pending_work(current):
    """The copy runs after earlier writes to the source, and before later ones."""
    stream = torch.openreg.current_stream(1)
    source = torch.zeros(1000, device="openreg:1")
    torch.openreg.synchronize(1)
    with held(stream):
        source.fill_(1)
        clone = torch._lazy_clone(source)
        read_source, read_clone = source * 1, clone * 1
        with torch.openreg.device(current):
            clone.data_ptr()  # materializes the clone
        source.fill_(2)
        clone.add_(10)
        read_again = source * 1
    assert read_source.sum().item() == read_clone.sum().item() == 1000
    assert source.sum().item() == read_again.sum().item() == 2000
    assert clone.sum().item() == 11000


@pytest.mark.parametrize("current", [0, 1])
def test_memory_read_by_a_copy_on_another_stream_is_not_reused(current):
    """The source is freed while the copy is pending; its memory is not reused before the copy is done."""
    side = torch.openreg.Stream(1)
    source = torch.full((1000,), 3.0, device="openreg:1")
    address = source.data_ptr()
    torch.openreg.synchronize(1)
    clone = torch._lazy_clone(source)
    before = torch.openreg.current_device()
    with torch.openreg.stream(side), held(side):
        with torch.openreg.device(current):
            assert clone.data_ptr() != address
        del source
        with torch.openreg.stream(torch.openreg.default_stream(1)):
            others = [torch.zeros(1000, device="openreg:1") for _ in range(4)]
            assert address not in [other.data_ptr() for other in others]
            torch.openreg.default_stream(1).synchronize()
    assert torch.openreg.current_device() == before
    assert clone.sum().item() == 3000


def test_record_stream_before_the_copy():
    side = torch.openreg.Stream()
    source = torch.full((1000,), 3.0, device="openreg")
    torch.openreg.synchronize()
    clone = torch._lazy_clone(source)
    with held(side):
        with torch.openreg.stream(side):
            read = clone * 1
        clone.record_stream(side)
        del source, clone
        other = torch.zeros(1000, device="openreg")
        torch.openreg.default_stream().synchronize()
    assert read.sum().item() == 3000 and other.sum().item() == 0


def test_the_last_owner_keeps_the_memory_without_a_copy():
    source = torch.arange(4.0, device="openreg:1")
    address = source.data_ptr()
    clone = torch._lazy_clone(source)
    del source
    assert clone.data_ptr() == address
    clone.add_(1)
    assert values(clone) == [1, 2, 3, 4]


@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_clone_can_be_resized_and_written(size):
    source = torch.arange(4.0, device="openreg:1")
    clone = torch._lazy_clone(source)
    clone.untyped_storage().resize_(size * 4)
    kept = torch.empty(0, device="openreg:1").set_(clone.untyped_storage())
    kept.add_(1)
    assert kept.data_ptr() != source.data_ptr()
    assert values(source) == [0, 1, 2, 3]
    assert values(kept)[: min(size, 4)] == [1, 2, 3, 4][:size]


def test_clones_of_clones_in_a_graph():
    source = torch.arange(4.0, device="openreg")
    graph = torch.openreg.OpenRegGraph()
    clone = torch._lazy_clone(torch._lazy_clone(source))
    with torch.openreg.graph(graph):
        clone.add_(1)
    graph.replay()
    assert values(clone) == [1, 2, 3, 4] and values(source) == [0, 1, 2, 3]


aten = torch.ops.aten
BATCH_NORMS = {
    "batch_norm": lambda x, mean, var: torch.nn.functional.batch_norm(x, mean, var, training=True),
    "native_batch_norm": lambda x, mean, var: aten.native_batch_norm(
        x, None, None, mean, var, True, 0.1, 1e-5
    ),
    "_native_batch_norm_legit": lambda x, mean, var: aten._native_batch_norm_legit(
        x, None, None, mean, var, True, 0.1, 1e-5
    ),
    "batch_norm_update_stats": lambda x, mean, var: torch.batch_norm_update_stats(x, mean, var, 0.1),
}


@pytest.mark.parametrize("name", BATCH_NORMS)
def test_running_statistics_that_no_schema_marks_as_written(name):
    x = torch.arange(12.0, device="openreg").reshape(4, 3)
    mean, var = torch.zeros(3, device="openreg"), torch.ones(3, device="openreg")
    lazy_mean, lazy_var = torch._lazy_clone(mean), torch._lazy_clone(var)
    BATCH_NORMS[name](x, lazy_mean, lazy_var)
    assert values(mean) == [0, 0, 0] and values(var) == [1, 1, 1]
    assert 0 not in values(lazy_mean) and 1 not in values(lazy_var)
