"""Checkpoints of private pools, as torch._C._cuda_getCheckpointState; PyTorch's test_cuda has more tests of them."""

import gc

import pytest
import torch
from blocked_stream import held

from torch_openreg import _C

MIB = 1 << 20


@pytest.fixture(params=[512, 4 * MIB], ids=["small", "large"])
def size(request):
    return request.param


class Captured:
    """A graph in `pool` whose outputs are `count` new tensors."""

    def __init__(self, size, count=2, pool=None):
        self.graph = torch.openreg.OpenRegGraph()
        with torch.openreg.graph(self.graph, pool=pool):
            self.outputs = [torch.zeros(size, dtype=torch.uint8, device="openreg") for _ in range(count)]
        self.pool = self.graph.pool()

    def addresses(self):
        return {one.untyped_storage().data_ptr() for one in self.outputs}


def blocks(pool):
    return [
        (segment["address"], block["size"], block["state"])
        for segment in torch.openreg.memory_snapshot(pool)
        for block in segment["blocks"]
    ]


def storages(tensors):
    return [tensor.untyped_storage()._cdata for tensor in tensors]


def restore(state, stale=(), owners=()):
    _C.set_checkpoint_pool_state(0, state, storages(stale), storages(owners))


def unowned_tensor(address, size):
    storage = torch._C._construct_storage_from_data_pointer(address, torch.device("openreg:0"), size)
    return torch.empty(0, dtype=torch.uint8, device="openreg").set_(storage)


def test_restoring_marks_freed_memory_as_in_use(size):
    gc.collect()  # tensors of other tests
    captured = Captured(size)
    state = _C.get_checkpoint_state(0, captured.pool)
    before, addresses = blocks(captured.pool), captured.addresses()
    allocated = torch.openreg.memory_allocated()
    captured.outputs.clear()
    assert blocks(captured.pool) != before
    restore(state)
    assert blocks(captured.pool) == before
    assert torch.openreg.memory_allocated() == allocated
    assert _C.check_pool_live_allocations(0, captured.pool, addresses)
    for address in addresses:
        torch.openreg.caching_allocator_delete(address)
    assert _C.check_pool_live_allocations(0, captured.pool, set())


def test_a_capture_after_the_restore_uses_other_memory(size):
    first = Captured(size)
    state = _C.get_checkpoint_state(0, first.pool)
    addresses = first.addresses()
    first.outputs.clear()
    reused = Captured(size, pool=first.pool)
    assert reused.addresses() & addresses
    restore(state, stale=reused.outputs)
    second = Captured(size, pool=first.pool)
    assert not second.addresses() & addresses
    for address in addresses:
        torch.openreg.caching_allocator_delete(address)


def test_stale_tensors_do_not_free(size):
    first = Captured(size)
    empty = _C.get_checkpoint_state(0, first.pool)
    second = Captured(size, pool=first.pool)
    restore(empty, stale=second.outputs)
    third = Captured(size, pool=first.pool)
    assert third.addresses() == second.addresses()
    second.outputs.clear()
    gc.collect()
    assert _C.check_pool_live_allocations(0, first.pool, first.addresses() | third.addresses())


def test_an_owner_frees_restored_memory(size):
    captured = Captured(size, count=1)
    state = _C.get_checkpoint_state(0, captured.pool)
    (address,) = captured.addresses()
    captured.outputs.clear()
    owner = unowned_tensor(address, size)
    restore(state, owners=[owner])
    captured.graph.replay()
    assert owner.sum().item() == 0
    owner.add_(1)
    assert owner.sum().item() == size
    del owner
    assert _C.check_pool_live_allocations(0, captured.pool, set())


def test_tensors_in_use_before_and_after_stay_owners(size):
    captured = Captured(size)
    state = _C.get_checkpoint_state(0, captured.pool)
    restore(state)
    captured.outputs[0].fill_(3)
    assert captured.outputs[0].sum().item() == 3 * size
    captured.outputs.clear()
    assert _C.check_pool_live_allocations(0, captured.pool, set())


def test_a_tensor_that_would_lose_its_memory_must_be_stale(size):
    first = Captured(size, count=1)
    state = _C.get_checkpoint_state(0, first.pool)
    second = Captured(size, count=1, pool=first.pool)
    before = blocks(first.pool)
    with pytest.raises(RuntimeError, match="stale tensors which are being manually freed must be passed"):
        restore(state)
    assert blocks(first.pool) == before
    second.outputs[0].fill_(1)
    assert second.outputs[0].sum().item() == size


def test_wrong_storages_are_errors():
    captured = Captured(512)
    state = _C.get_checkpoint_state(0, captured.pool)
    other = torch.ones(4, device="openreg")
    with pytest.raises(RuntimeError, match="does not own memory of the pool"):
        restore(state, stale=[other])
    with pytest.raises(RuntimeError, match="already owns its memory"):
        restore(state, owners=[other])
    with pytest.raises(ValueError, match=r"no memory pool \(0, 12345678\)"):
        _C.get_checkpoint_state(0, (0, 12345678))


def test_a_new_segment_at_the_address_of_a_released_one_is_an_error():
    pool = torch.openreg.graph_pool_handle()
    first = Captured(4 * MIB, count=1, pool=pool)
    state = _C.get_checkpoint_state(0, pool)
    first.outputs.clear()
    first.graph.reset()
    torch.openreg.empty_cache()
    second = Captured(512, count=1, pool=pool)  # in a segment of another size
    with pytest.raises(RuntimeError, match="was released"):
        restore(state, stale=second.outputs)


def test_stale_memory_that_another_stream_uses_is_an_error():
    pool, side = torch.openreg.MemPool(), torch.openreg.Stream()
    with torch.openreg.use_mem_pool(pool):
        state = _C.get_checkpoint_state(0, pool.id)
        data = torch.ones(1000, device="openreg")
    side.wait_stream(torch.openreg.current_stream())
    with held(side), torch.openreg.stream(side):
        result = data + 1
        data.record_stream(side)
        with pytest.raises(RuntimeError, match="may still use the stale memory"):
            restore(state, stale=[data])
    side.synchronize()
    restore(state, stale=[data])
    assert result.sum().item() == 2000


def test_an_owner_can_follow_a_raw_allocation(size):
    captured = Captured(size, count=1)
    state = _C.get_checkpoint_state(0, captured.pool)
    (address,) = captured.addresses()
    captured.outputs.clear()
    restore(state)
    owner = unowned_tensor(address, size)
    restore(state, owners=[owner])
    del owner
    assert _C.check_pool_live_allocations(0, captured.pool, set())


def test_owners_must_match_memory_without_an_owner():
    captured = Captured(512, count=1)
    state = _C.get_checkpoint_state(0, captured.pool)
    (address,) = captured.addresses()
    with pytest.raises(RuntimeError, match="already has an owner"):
        restore(state, owners=[unowned_tensor(address, 512)])
    with pytest.raises(RuntimeError, match="no memory in use"):
        restore(state, owners=[unowned_tensor(address + 512, 512)])


def test_a_restore_frees_before_it_allocates():
    pool = torch.openreg.graph_pool_handle()
    small = Captured(MIB // 2, count=4, pool=pool)
    state = _C.get_checkpoint_state(0, pool)
    small.outputs.clear()
    large = Captured(MIB, count=2, pool=pool)
    torch.openreg.reset_peak_memory_stats()
    before = torch.openreg.memory_allocated()
    restore(state, stale=large.outputs)
    assert torch.openreg.max_memory_allocated() == before
    for segment in torch.openreg.memory_snapshot(pool):
        for index, block in enumerate(segment["blocks"]):
            if block["state"] == "active_allocated":
                torch.openreg.caching_allocator_delete(
                    segment["address"] + sum(b["size"] for b in segment["blocks"][:index])
                )


def test_released_segments_are_an_error():
    captured = Captured(512)
    state = _C.get_checkpoint_state(0, captured.pool)
    pool = captured.pool
    captured.outputs.clear()
    captured.graph.reset()
    torch.openreg.empty_cache()
    with pytest.raises(ValueError, match="no memory pool"):
        restore(state)
    _C.use_pool(0, pool)
    with pytest.raises(RuntimeError, match="was released"):
        restore(state)
    _C.release_pool(0, pool)
