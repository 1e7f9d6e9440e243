"""The public interface under modes that replace tensors: FakeTensorMode and LocalTensorMode.

Tensors of these modes have no memory, and C++ code that reads it would crash. So each group of functions runs in a
separate process. A function must return the same type as without the mode. An RNG state without memory must raise, and
other uses of tensors without memory must not crash.
"""

import pytest
import torch
from interpreter import execute_each

from torch_openreg._torch_versions import HAS_EMPTY_HOST_CACHE

IMPORTS = """
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._local_tensor import LocalTensorMode

class Wrapper(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None): raise NotImplementedError(func)

with FakeTensorMode(): torch.ones(2) + 1  # triggers lazy imports
"""
MODES = {"fake": "mode = FakeTensorMode()\n", "local": "mode = LocalTensorMode(2)\n"}

# Evaluates each expression without and with the mode. Tensors that the expression creates belong to the mode.
BOTH = """
{mode}
acc, dev, event = torch.accelerator, torch.openreg, torch.Event("openreg")
real = torch.ones(4, device="openreg")
state = dev.get_rng_state()
generator = torch.Generator("openreg")
events = [torch.openreg.Event(enable_timing=True) for _ in range(2)]
for one in events: one.record()
dev.synchronize()
def entered(context):
    with context: return True
def kind(value):
    return "a tensor" if isinstance(value, torch.Tensor) else type(value)
for line in {lines}:
    expected = kind(eval(line))
    with mode:
        print(line, flush=True)
        got = kind(eval(line))
    assert got == expected, (line, got, expected)
print("done")
"""

GROUPS = {
    "random": """
        dev.get_rng_state()
        dev.get_rng_state(1)
        len(dev.get_rng_state_all())
        dev.set_rng_state(state)
        dev.set_rng_state_all([state, state])
        dev.manual_seed(3)
        dev.manual_seed_all(3)
        dev.seed()
        dev.seed_all()
        dev.initial_seed()
        dev._set_rng_state_offset(8)
        dev._get_rng_state_offset()
        len(dev.default_generators)
        torch.manual_seed(4)
        torch.seed()
        entered(torch.random.fork_rng(device_type="openreg"))
    """,
    "generator": """
        generator.get_state()
        generator.set_state(state)
        generator.clone_state()
        generator.graphsafe_get_state()
        generator.graphsafe_set_state(generator)
        generator.get_offset()
        generator.set_offset(8)
        generator.manual_seed(3)
        generator.seed()
        generator.initial_seed()
        generator.device
        generator.__reduce__()
        torch.Generator("openreg:1")
    """,
    "device": """
        dev.init()
        dev.is_initialized()
        dev._lazy_init()
        dev._is_in_bad_fork()
        dev.is_available()
        dev.device_count()
        dev.current_device()
        dev.set_device(0)
        entered(dev.device(1))
        entered(dev.device_of(real))
        entered(dev.device_of(torch.ones(2, device="openreg:1")))
        dev.can_device_access_peer(0, 1)
        dev.get_device_capability()
        dev.get_device_name()
        dev.get_device_properties()
        dev.synchronize()
        dev._sleep(10)
        dev.get_amp_supported_dtype()
        dev.is_bf16_supported()
        dev.is_tf32_supported()
        acc.current_accelerator()
        acc.current_device_idx()
        acc.current_device_index()
        acc.device_count()
        entered(acc.device_index(1))
        acc.get_device_capability()
        acc.is_available()
        acc.set_device_idx(0)
        acc.set_device_index(0)
        acc.synchronize()
        [getattr(dev, name)(2).device.type for name in dev.__all__ if name.endswith("Tensor")]
    """,
    "stream": """
        dev.Stream()
        dev.ExternalStream(dev.Stream().native_handle)
        dev.get_stream_from_external(dev.Stream().native_handle)
        dev.current_stream()
        dev.default_stream()
        dev.set_stream(dev.default_stream())
        entered(dev.stream(dev.Stream()))
        entered(dev.StreamContext(dev.Stream()))
        acc.current_stream()
        acc.set_stream(dev.default_stream())
        dev.Event()
        dev.Event(interprocess=True).ipc_handle()
        events[0].elapsed_time(events[1])
        event.record()
        event.query()
        event.synchronize()
        dev.current_stream().wait_event(event)
        dev.get_schedule()
        entered(dev.schedule("blocking"))
        dev.set_schedule("async")
        dev.Schedule
    """,
    "memory": """
        dev.caching_allocator_delete(dev.caching_allocator_alloc(100))
        dev.caching_allocator_enable(True)
        entered(dev.caching_allocator_disabled())
        dev.device_memory_used()
        dev.empty_cache()
        dev.empty_host_cache()
        dev.get_allocator_backend()
        dev.get_per_process_memory_fraction()
        dev.set_per_process_memory_fraction(1.0)
        dev.host_memory_stats()
        dev.host_memory_stats_as_nested_dict()
        dev.max_memory_allocated()
        dev.max_memory_reserved()
        dev.mem_get_info()
        dev.memory_allocated()
        dev.memory_reserved()
        dev.memory_snapshot()
        dev.memory_stats()
        dev.memory_stats_as_nested_dict()
        dev.memory_summary()
        dev.reset_accumulated_host_memory_stats()
        dev.reset_accumulated_memory_stats()
        dev.reset_peak_host_memory_stats()
        dev.reset_peak_memory_stats()
        dev.memory._snapshot()
        dev.memory._record_memory_history(None)
        dev.MemPool()
        entered(dev.use_mem_pool(dev.MemPool()))
        dev.ipc_collect()
        acc.empty_cache()
        acc.get_memory_info()
        acc.max_memory_allocated()
        acc.max_memory_reserved()
        acc.memory_allocated()
        acc.memory_reserved()
        acc.memory_stats()
        acc.reset_accumulated_memory_stats()
        acc.reset_peak_memory_stats()
    """,
    "monitor": """
        entered(dev.assert_no_sync())
        entered(dev.fallback("warn"))
        entered(dev.record_operator_stats())
        dev.operator_stats()
        dev.operator_totals()
        dev.reset_operator_stats()
        dev.get_sync_debug_mode()
        dev.set_sync_debug_mode(0)
        dev.OperatorStats
        dev.OperatorTotals
        dev.profiler.mark("here")
        entered(dev.profiler.range("here"))
        entered(dev.faults([{"call": "orMalloc", "nth": 1000, "action": "out_of_memory"}]))
        dev.FaultCounts
        entered(dev.check_races())
        entered(dev.watchdog(60))
        dev.Race, dev.RaceAccess, dev.RaceError
        dev.release_hangs()
        entered(dev.check_leaks())
        dev.Leak
        dev.LeakError
        dev.reset
    """,
    "graph": """
        dev.OpenRegGraph()
        acc.Graph()
        dev.graph_pool_handle()
        dev.is_current_stream_capturing()
        entered(dev.graph(dev.OpenRegGraph()))
        dev.make_graphed_callables
    """,
    "storage": """
        dev.get_storage_name(real)
        dev.set_storage_name(real, "weights")
        dev.get_backend_meta(real)
        dev.set_backend_meta(real, {"packed": True})
        dev.get_storage_name(torch.ones(2).untyped_storage())
        real.untyped_storage().resize_(32)
        torch.UntypedStorage(16, device="openreg").device
        real.__dlpack_device__()
        torch.utils.dlpack.to_dlpack(real)
        real.data_ptr()
        real.untyped_storage().data_ptr()
        dev.process.reduce_storage(real.untyped_storage())
    """,
}
if HAS_EMPTY_HOST_CACHE:
    GROUPS["memory"] += "acc.empty_host_cache()"


STATE_IS_REAL = """
torch.openreg.manual_seed(5)
without = torch.openreg.get_rng_state()
with mode:
    states = [torch.openreg.get_rng_state(), torch.Generator("openreg").manual_seed(5).get_state()]
for state in states:
    assert type(state) is torch.Tensor and state.tolist() == without.tolist()
with mode:
    torch.openreg.set_rng_state(states[0], 1)
assert torch.openreg.get_rng_state(1).tolist() == without.tolist()
"""

# Tensors without host data, or with data of the wrong size, dtype or layout.
UNREADABLE = {
    "fake": "with FakeTensorMode(): tensor = torch.zeros(16, dtype=torch.uint8)",
    "local": "with LocalTensorMode(2): tensor = torch.zeros(16, dtype=torch.uint8)",
    "meta": "tensor = torch.zeros(16, dtype=torch.uint8, device='meta')",
    "wrapper": "tensor = torch.Tensor._make_wrapper_subclass(Wrapper, (16,), dtype=torch.uint8)",
    "functional": "tensor = torch._to_functional_tensor(torch.zeros(16, dtype=torch.uint8))",
    "freed": "tensor = torch.zeros(16, dtype=torch.uint8); tensor.untyped_storage().resize_(0)",
    "partly freed": "tensor = torch.zeros(16, dtype=torch.uint8); tensor.untyped_storage().resize_(8)",
    "on the device": "tensor = torch.zeros(16, dtype=torch.uint8, device='openreg')",
    "sparse": "tensor = torch.zeros(16, dtype=torch.uint8).to_sparse()",
    "with gaps": "tensor = torch.zeros(32, dtype=torch.uint8)[::2]",
    "of another dtype": "tensor = torch.zeros(2, dtype=torch.int64)",
    "short": "tensor = torch.zeros(15, dtype=torch.uint8)",
    "long": "tensor = torch.zeros(17, dtype=torch.uint8)",
    "empty": "tensor = torch.zeros(0, dtype=torch.uint8)",
}

REJECTED_AS_STATE = """
before = torch.openreg.get_rng_state().tolist()
for function in (torch.Generator("openreg").set_state, torch.openreg.set_rng_state):
    try:
        function(tensor)
    except (RuntimeError, TypeError) as error:
        print(error)
    else:
        raise AssertionError("no error was raised")
assert torch.openreg.get_rng_state().tolist() == before
"""

USES = """
dev, side = torch.openreg, torch.openreg.Stream()
uses = [
    lambda: dev.get_storage_name(tensor), lambda: dev.set_storage_name(tensor, "a"),
    lambda: dev.get_backend_meta(tensor), lambda: dev.set_backend_meta(tensor, {"packed": True}),
    lambda: dev.process.reduce_storage(tensor.untyped_storage()),
    lambda: tensor.record_stream(side), lambda: tensor.__dlpack_device__(), lambda: tensor.__dlpack__(),
    lambda: torch.from_dlpack(tensor), lambda: tensor.untyped_storage().resize_(64),
    lambda: tensor.data_ptr(), lambda: torch.ones(16, device="openreg") + tensor, lambda: tensor.cpu(),
    lambda: torch.ones(16, device="openreg").copy_(tensor), lambda: torch._lazy_clone(tensor),
    lambda: tensor.pin_memory(), lambda: tensor.is_pinned(),
]
for use in uses:
    try:
        print(use())
    except (RuntimeError, TypeError, ValueError, NotImplementedError, BufferError, AssertionError) as error:
        print(type(error), error)
torch.openreg.synchronize()
assert (torch.ones(2, device="openreg") + 1).tolist() == [2, 2]
"""


def programs() -> dict[str, str]:
    made = {}
    for mode, start in MODES.items():
        for group, text in GROUPS.items():
            lines = [line.strip() for line in text.strip().splitlines()]
            made[f"{mode}: {group}"] = BOTH.format(mode=start, lines=lines)
        made[f"{mode}: RNG state is a real tensor"] = start + STATE_IS_REAL
    for what, make in UNREADABLE.items():
        made[f"RNG state, {what}"] = make + REJECTED_AS_STATE
    for what in ("fake", "local", "meta", "wrapper", "functional", "freed", "partly freed"):
        on_device = UNREADABLE[what].replace("dtype=torch.uint8)", "dtype=torch.uint8, device='openreg')")
        made[f"uses of a tensor, {what}"] = on_device + USES
    return made


@pytest.fixture(scope="module")
def results() -> dict[str, tuple[int, str]]:
    return execute_each(IMPORTS, programs())


@pytest.mark.parametrize("name", programs())
def test_no_crash_under_tensor_modes(name, results):
    code, output = results[name]
    assert code == 0, f"exited with {code}\n{output}"


def test_every_public_name_is_in_a_group():
    text = "\n".join(GROUPS.values())
    for prefix, module in (("dev", torch.openreg), ("acc", torch.accelerator)):
        for name in module.__all__:
            assert name.endswith(("Tensor", "Storage", "Error")) or f"{prefix}.{name}" in text, name
    for name in set(dir(torch.Generator)) - {"philox_state"}:  # since torch 2.14; test_random.py
        assert name.startswith("_") or f"generator.{name}" in text, name


@pytest.mark.parametrize("what", ["fake", "local", "wrapper", "functional", "freed", "partly freed"])
def test_rng_state_without_host_data_raises(what, results):
    assert results[f"RNG state, {what}"][1].count("no data on the host") == 2
