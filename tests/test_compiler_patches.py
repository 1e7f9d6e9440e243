"""Each patch of Inductor is still needed: without it, torch decides for the device as if its code were not C++."""

import inspect
from types import SimpleNamespace

import pytest
import torch
from torch._inductor import cudagraph_utils, ir, lowering, scheduler, utils
from torch._inductor.fx_passes import post_grad
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensorMode

from torch_openreg import compiler
from torch_openreg.compiler import patches

DEVICE = torch.device("openreg", 0)
NODE = SimpleNamespace(get_device=lambda: DEVICE)


@pytest.fixture(scope="module", autouse=True)
def registered():
    compiler.register()


def source(owner, name):
    return inspect.getsource(inspect.unwrap(patches.original(owner, name)))


def raises(call, error=AssertionError):
    try:
        call()
    except error:
        return True
    return False


def compile_element_of_a_host_tensor():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            post_grad, "move_constructors_to_gpu", patches.original(post_grad, "move_constructors_to_gpu")
        )
        compiled = torch.compile(lambda x, h: torch.where(x > h[0], x, h[0]))
        with torch._inductor.utils.fresh_inductor_cache():
            compiled(torch.ones(4, device="openreg"), torch.ones(4))


def fake_strides(patched):
    """Of a convolution with channels last on the device."""
    op = torch.ops.aten.convolution.default
    implementations = fake_impls.op_implementations_dict
    FakeTensorMode.cache_clear()
    with pytest.MonkeyPatch.context() as patch, FakeTensorMode():
        if not patched:
            patch.setitem(implementations, op, implementations[op].args[0])
        x = torch.empty(2, 3, 8, 8, device="openreg").to(memory_format=torch.channels_last)
        weight = torch.empty(4, 3, 3, 3, device="openreg")
        return torch.nn.functional.conv2d(x, weight).stride()


# What is true while torch needs the patch.
NEEDED = {
    "layout_of_fake_results": lambda: fake_strides(patched=False) != fake_strides(patched=True),
    "random_state_of_checkpoints": lambda: raises(
        lambda: patches.original(SimpleNamespace(__name__="rng_prims"), "save")(
            torch.add, torch.ones(2, device="openreg"), 1
        )
    ),
    "cpp_backend": lambda: patches.original(utils, "get_current_backend")("openreg") != "cpp",
    "cpp_fusion": lambda: not patches.original(scheduler.BaseSchedulerNode, "is_cpu")(NODE),
    "cpp_loops": lambda: not patches.original(ir, "is_cpu")(DEVICE),
    "pointwise_device": lambda: not patches.original(lowering, "is_gpu")("openreg"),
    "stream_guard": lambda: not patches.original(scheduler, "device_need_guard")("openreg"),
    "argmax_of_permuted": lambda: 'get_device_type(x) == "cpu"' in source(lowering, "_make_reduction_inner"),
    "two_step_variance": lambda: 'device.type == "cpu"' in source(lowering, "use_two_step_variance"),
    "concatenation": lambda: '.type == "cpu"' in source(lowering, "cat"),
    "order_of_events": lambda: (
        "flush" not in source(scheduler.Scheduler, "codegen_extern_call")
        and "if device := node.get_device():\n" in inspect.getsource(scheduler.Scheduler._codegen)
    ),
    "scatter_sum": lambda: 'src_device_type == "cpu"' in source(lowering, "use_scatter_fallback"),
    "padding": lambda: 'device.type == "cpu"' in source(lowering, "_pad_as_cat"),
    "graph_trees": lambda: (
        patches.original(cudagraph_utils, "check_multiple_devices_or_any_cpu_nodes")({DEVICE: None})
        is not None
    ),
    "scalars_on_the_host": lambda: raises(compile_element_of_a_host_tensor, RuntimeError),
    "combo_kernels": lambda: '"cpu"' in inspect.getsource(scheduler.ForeachKernelSchedulerNode),
}


PATCHES = patches.AT_IMPORT | patches.AT_REGISTRATION


def test_every_patch_has_a_test():
    assert set(NEEDED) == set(PATCHES)


@pytest.mark.parametrize("name", NEEDED)
def test_torch_needs_the_patch(name):
    if not patches.is_for_this_torch(name):
        pytest.skip("a later torch needs it")
    assert NEEDED[name](), (
        f"torch {torch.__version__} has fixed what {name} patches: remove it for this version"
    )


@pytest.mark.parametrize("name", PATCHES)
def test_patch_has_versions_and_a_reason(name):
    text = inspect.getdoc(PATCHES[name])
    assert text.startswith("torch 2.1") and len(text) > 60
    assert name not in patches.SINCE or text.startswith("torch {}.{} to ".format(*patches.SINCE[name]))


def test_other_devices_are_not_affected():
    assert utils.get_current_backend("cuda") == patches.original(utils, "get_current_backend")("cuda")
    assert not lowering.is_gpu("cpu") and lowering.is_gpu("cuda")
    assert not ir.is_cpu(torch.device("meta"))
