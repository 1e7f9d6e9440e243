"""Six ways to implement an operator for the device, each under every schedule; see docs/guide/scenarios.md."""

import itertools
import re
from pathlib import Path

import pytest
import torch
from interpreter import python

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
REALS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
pytestmark = pytest.mark.usefixtures("each_schedule")


def numbers(shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype in UNSIGNED or dtype == torch.uint8:
        return torch.randint(0, 5, shape, generator=generator).to(dtype)
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(-4, 5, shape, generator=generator).to(dtype)
    made = torch.randn(shape, generator=generator, dtype=dtype if dtype.is_complex else torch.float64)
    return torch.where(made.real > 1, torch.zeros_like(made), made).to(dtype)


def layouts(tensor):
    """The same matrix in several memory layouts, and parts of it."""
    yield tensor
    yield tensor.t()
    yield tensor[::2, 1:]
    yield tensor[:, :1].expand(-1, 3)
    yield tensor[0, 0]
    yield tensor[:0]


def on_both(function, *tensors, **options):
    """Returns the results on the device and on the CPU. The device tensors have the same layouts."""
    mine = [copy_of(t) if isinstance(t, torch.Tensor) else t for t in tensors]
    return function(*mine, **options), function(*tensors, **options)


def copy_of(tensor):
    base = tensor._base if tensor._base is not None else tensor
    there = base.to("openreg")
    return there.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def same(mine, theirs, **tolerance):
    assert mine.device.type == "openreg" and mine.dtype == theirs.dtype and mine.shape == theirs.shape
    torch.testing.assert_close(mine.cpu(), theirs, equal_nan=True, **tolerance)


def errors_agree(function, *tensors):
    with pytest.raises((RuntimeError, IndexError)) as theirs:
        function(*tensors)
    with pytest.raises(type(theirs.value)) as mine:
        function(*[copy_of(t) if isinstance(t, torch.Tensor) else t for t in tensors])
    assert str(mine.value) == str(theirs.value)


def has_kernel(name, key="PrivateUse1"):
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


def kernel_of(name):
    """The line of the dispatch table with the source location of the device's kernel."""
    lines = torch._C._dispatch_dump(name).splitlines()
    return next((line for line in lines if line.startswith("PrivateUse1:")), "")


# ---- 1: a kernel for an operator that PyTorch defines


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *REALS, *COMPLEX], ids=str)
def test_logical_xor_of_every_dtype_and_layout(dtype):
    a, b = numbers((6, 6), dtype), numbers((6, 6), dtype, seed=1)
    for x, y in zip(layouts(a), layouts(b), strict=True):
        same(*on_both(torch.logical_xor, x, y))
    same(*on_both(torch.logical_xor, a, b.t()))
    same(*on_both(torch.logical_xor, a, b[0]))
    same(*on_both(lambda x, y: x.clone().logical_xor_(y), a, b))


def test_logical_xor_type_promotion():
    for left, right in itertools.combinations([torch.bool, torch.uint8, torch.int64, *REALS, *COMPLEX], 2):
        same(*on_both(torch.logical_xor, numbers((4, 3), left), numbers((3,), right, seed=1)))
        same(*on_both(torch.logical_xor, numbers((3,), left), numbers((4, 3), right, seed=1)))
    # An imaginary number is true, although its real part is zero.
    same(*on_both(torch.logical_xor, torch.tensor([1j, 0]), torch.tensor([0, 0])))
    for out in (torch.bool, torch.int16, torch.float16, torch.complex64):
        same(
            *on_both(
                lambda x, y, out=out: torch.logical_xor(x, y, out=torch.empty(0, dtype=out, device=x.device)),
                numbers((5, 5), torch.float32),
                numbers((5,), torch.int8),
            )
        )


def test_logical_xor_accepts_a_cpu_scalar():
    a = numbers((5,), torch.float32)
    there = a.to("openreg")
    for number in (torch.tensor(1.0), torch.tensor(0), torch.tensor(2j)):
        expected = torch.logical_xor(a, number)
        made = torch.logical_xor(there, number)
        number.fill_(0)  # the kernel has its own copy
        same(made, expected)


def test_logical_xor_errors_match_pytorch():
    errors_agree(torch.logical_xor, torch.ones(3), torch.ones(4))
    errors_agree(lambda a, b: a.logical_xor_(b), torch.ones(1), torch.ones(4))
    errors_agree(lambda a: a.expand(4).logical_xor_(a), torch.ones(1))
    with pytest.raises(RuntimeError, match=r"same device.*openreg:0 and cpu"):
        torch.logical_xor(torch.ones(3, device="openreg"), torch.ones(3))


# ---- 2: stubs


def test_operators_are_registered_by_the_stub_example():
    for name in (
        "logical_not.out",
        "copysign.Tensor",
        "copysign_.Tensor",
        "copysign.out",
        "prod",
        "prod.int_out",
    ):
        assert "examples/stub.cpp" in kernel_of(f"aten::{name}"), name


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *REALS, *COMPLEX], ids=str)
def test_logical_not_of_every_dtype_and_layout(dtype):
    values = numbers((6, 6), dtype)
    values[0] = 0
    for x in layouts(values):
        same(*on_both(torch.logical_not, x))
    same(*on_both(lambda x: x.clone().logical_not_(), values.t()))
    for out in (torch.bool, torch.uint8, torch.float16):
        into = torch.empty(0, dtype=out)
        same(*on_both(lambda x, into: torch.logical_not(x, out=into.clone()), values, into))


def test_logical_not_of_edge_values():
    for dtype in REALS:
        values = torch.tensor([-0.0, float("nan"), float("-inf"), torch.finfo(dtype).tiny], dtype=dtype)
        same(*on_both(torch.logical_not, values))


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *UNSIGNED, *REALS], ids=str)
def test_copysign_of_every_dtype_and_layout(dtype):
    a, b = numbers((6, 6), dtype), numbers((6, 6), dtype, seed=1)
    for x, y in zip(layouts(a), layouts(b), strict=True):
        same(*on_both(torch.copysign, x, y))
    same(*on_both(torch.copysign, a, b.t()[0]))
    same(*on_both(torch.copysign, a, -0.0))
    if dtype.is_floating_point:
        same(*on_both(lambda x, y: x.clone().t().copysign_(y), a, b))
    out = torch.empty(0, dtype=torch.float64)
    same(*on_both(lambda x, y, out: torch.copysign(x, y, out=out.clone()), a, b, out))


def test_copysign_type_promotion_and_errors_match_pytorch():
    for left, right in itertools.permutations([torch.bool, torch.int64, *REALS], 2):
        same(*on_both(torch.copysign, numbers((4, 3), left), numbers((3,), right, seed=1)))
        same(*on_both(torch.copysign, numbers((4, 3), left), numbers((), right, seed=1)))
    errors_agree(torch.copysign, torch.ones(3), torch.ones(4))
    errors_agree(lambda a: a.copysign_(torch.ones_like(a)), torch.ones(3, dtype=torch.int32))
    errors_agree(lambda a, b: a.copysign_(b), torch.ones(1), torch.ones(4))


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *UNSIGNED, *REALS, *COMPLEX], ids=str)
def test_prod_of_every_dtype_and_layout(dtype):
    loose = {"rtol": 5e-2, "atol": 1e-2} if dtype in REALS[:2] else {}
    values = numbers((6, 6), dtype)
    for x in layouts(values):
        same(*on_both(torch.prod, x), **loose)
        for dim in range(x.dim()):
            same(*on_both(torch.prod, x, dim), **loose)
    same(*on_both(torch.prod, values.reshape(2, 3, 6), 1, keepdim=True), **loose)
    same(*on_both(torch.prod, values.reshape(2, 3, 6).transpose(0, 2), 0), **loose)
    same(*on_both(torch.prod, values, 0, dtype=torch.float64), **loose)


def test_prod_out():
    a = numbers((4, 5), torch.float32)
    same(*on_both(lambda x: torch.prod(x, 0, out=torch.empty(5, 2, device=x.device)[:, 0]), a))
    errors_agree(lambda x: torch.prod(x, 3), a)
    same(*on_both(lambda x: torch.prod(x, 0, out=torch.empty(5, dtype=torch.float64, device=x.device)), a))


def test_derivatives_of_stub_operators():
    for function in (lambda x: torch.copysign(x, x.flip(0)), lambda x: x.prod(0)):
        cpu = torch.tensor([[1.0, -2.0], [3.0, -0.5]], requires_grad=True)
        there = cpu.detach().to("openreg").requires_grad_()
        function(cpu).sum().backward()
        function(there).sum().backward()
        same(there.grad, cpu.grad)


# ---- 3: custom operators with separate forward and backward

CUSTOM = {
    "openreg": (torch.ops.openreg.custom_abs, "openreg::custom_abs_backward"),
    "aten": (torch.ops.aten._openreg_custom_abs, "aten::_openreg_custom_abs_backward"),
}


@pytest.mark.parametrize("namespace", CUSTOM)
def test_custom_operator_and_its_backward(namespace):
    custom_abs, backward = CUSTOM[namespace]
    for dtype in REALS:
        for x in layouts(numbers((6, 6), dtype)):
            cpu = x.detach().clone().requires_grad_()
            there = copy_of(x).requires_grad_()
            made = custom_abs(there)
            assert made.grad_fn.name() == "CustomAbsBackward"
            same(made.detach(), cpu.abs().detach())
            weights = torch.arange(x.numel(), dtype=dtype).reshape(x.shape)
            (cpu.abs() * weights).sum().backward()
            (made * weights.to("openreg")).sum().backward()
            same(there.grad, cpu.grad)
    assert has_kernel(backward) and has_kernel(backward, "AutogradPrivateUse1")
    assert custom_abs(torch.ones(2, device="openreg")).grad_fn is None


@pytest.mark.parametrize("namespace", CUSTOM)
def test_custom_operator_can_be_differentiated_twice(namespace):
    custom_abs, _ = CUSTOM[namespace]
    x = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, device="openreg", requires_grad=True)
    assert torch.autograd.gradcheck(custom_abs, x)
    assert torch.autograd.gradgradcheck(custom_abs, x)
    assert torch.autograd.gradgradcheck(lambda x: custom_abs(x) ** 3, x)


def test_custom_operator_raises_for_an_unsupported_dtype():
    with pytest.raises(NotImplementedError, match="\"custom_abs\" not implemented for 'Int'"):
        torch.ops.openreg.custom_abs(torch.ones(2, dtype=torch.int32, device="openreg"))


# ---- 4: torch::autograd::Function


def test_autograd_function_that_returns_its_input_or_a_view():
    for operator in (
        torch.ops.openreg.custom_autograd_fn_returns_self,
        torch.ops.openreg.custom_autograd_fn_aliasing,
    ):
        x = torch.randn(4, device="openreg", requires_grad=True)
        made = operator(x)
        assert made is not x and made.data_ptr() == x.data_ptr()
        assert torch.equal(made, x)
        made.sum().backward()
        assert x.grad.tolist() == [0.5] * 4


def test_autograd_function_that_saves_its_input():
    cube = torch.ops.openreg.custom_autograd_fn_cube
    for dtype in [*REALS, *COMPLEX]:
        for x in layouts(numbers((6, 6), dtype)):
            loose = {"rtol": 2e-2, "atol": 2e-2} if dtype in REALS[:2] else {}
            same(cube(copy_of(x)), x * x * x, **loose)
    for dtype in (torch.float64, torch.complex128):
        x = numbers((3,), dtype).to("openreg").requires_grad_()
        assert torch.autograd.gradcheck(cube, x)
        assert torch.autograd.gradgradcheck(cube, x)
    x = torch.tensor([2.0], device="openreg", requires_grad=True)
    made = cube(x)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.backward()


# ---- 5: fallback, unsupported operators, fallthrough


def test_fallback_for_all_operators_and_by_name():
    assert not has_kernel("aten::median")
    assert "the host engine" in kernel_of("aten::convolution")
    same(*on_both(torch.median, numbers((5,), torch.float32)))


def test_unsupported_operators_raise_with_reason_and_advice(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(16))
    with pytest.raises(NotImplementedError, match=r"'aten::from_file'.*openreg.*host memory.*on the CPU"):
        torch.from_file(str(path), size=4, device="openreg")
    with pytest.raises(NotImplementedError, match=r"'aten::to_mkldnn'.*openreg.*oneDNN.*to the CPU"):
        torch.ones(2, device="openreg").to_mkldnn()


def test_fallthrough_passes_arguments_unchanged():
    shares_storage = torch.ops.openreg.shares_storage
    a = torch.ones(4, dtype=torch.complex64, device="openreg")
    assert shares_storage(a, a[1:]) and shares_storage(a, a.conj()) and shares_storage(a, a.conj().imag)
    assert not shares_storage(a, a.clone())
    for key in ("Conjugate", "Negative", "AutogradPrivateUse1"):
        assert torch._C._dispatch_kernel_for_dispatch_key_is_fallthrough("openreg::shares_storage", key)


# ---- 6: Meta kernels, overriding, torch.compile


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *REALS, *COMPLEX], ids=str)
def test_isfinite_is_one_kernel(dtype):
    values = numbers((6, 6), dtype)
    if dtype.is_floating_point or dtype.is_complex:
        values[0, :3] = torch.tensor([float("nan"), float("inf"), float("-inf")])
        values[1, :2] = torch.tensor([torch.finfo(dtype).max, torch.finfo(dtype).tiny], dtype=dtype)
    if dtype.is_complex:
        values[2, :2] = torch.tensor([complex(0, float("inf")), complex(0, float("nan"))])
    for x in layouts(values):
        same(*on_both(torch.isfinite, x))
    there = values.to("openreg")
    if dtype.is_floating_point or dtype.is_complex:
        there.requires_grad_()
    torch.openreg.synchronize()
    with torch.profiler.profile() as profile:
        torch.isfinite(there)
    called = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CPU]
    assert {event.name for event in called if event.name.startswith("aten::")} <= (
        {"aten::isfinite", "aten::empty_like", "aten::empty_strided", "aten::empty"}
        if dtype.is_floating_point or dtype.is_complex
        else {"aten::isfinite", "aten::ones_like", "aten::empty_like", "aten::empty_strided", "aten::fill_"}
        | {"aten::empty"}
    )


CUSTOM_OPERATORS = {
    "custom_abs": torch.ops.openreg.custom_abs,
    "aten_custom_abs": torch.ops.aten._openreg_custom_abs,
    "returns_self": torch.ops.openreg.custom_autograd_fn_returns_self,
    "aliasing": torch.ops.openreg.custom_autograd_fn_aliasing,
    "cube": torch.ops.openreg.custom_autograd_fn_cube,
}


@pytest.mark.parametrize("name", CUSTOM_OPERATORS)
def test_custom_operators_accept_fake_tensors(name):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        made = CUSTOM_OPERATORS[name](torch.empty(3, 4, device="openreg").t())
        assert made.shape == (4, 3) and made.stride() == (1, 4) and made.device.type == "openreg"


@pytest.mark.parametrize("name", CUSTOM_OPERATORS)
def test_custom_operators_compile(name, each_schedule):
    if each_schedule != "async":
        pytest.skip("torch.compile does not depend on the schedule")
    operator = CUSTOM_OPERATORS[name]
    eager = torch.randn(4, device="openreg", requires_grad=True)
    compiled = eager.detach().clone().requires_grad_()
    torch._dynamo.reset()
    expected = operator(eager)
    made = torch.compile(lambda x: operator(x) * 2, backend="aot_eager", fullgraph=True)(compiled)
    assert torch.equal(made, expected * 2)
    (expected * 2).sum().backward()
    made.sum().backward()
    assert torch.equal(eager.grad, compiled.grad)


# ---- Devices and streams


def test_kernels_run_on_the_tensors_device_and_the_current_stream():
    a = torch.randn(1000)
    there = a.to("openreg:1")
    side = torch.Stream("openreg:1")
    side.wait_stream(torch.openreg.current_stream(1))
    with side:
        made = torch.ops.openreg.custom_abs(there.neg()).copysign(there)
    torch.openreg.current_stream(1).wait_stream(side)
    assert made.device.index == 1
    assert torch.equal(made.cpu(), a)


# ---- Loading and the guide


def test_nothing_is_registered_twice(each_schedule):
    if each_schedule != "async":
        pytest.skip("loading does not depend on the schedule")
    made = python("-c", "import torch; torch.ones(1, device='openreg').abs()")
    assert made.stderr == ""


def test_code_quoted_in_the_guide_exists():
    root = Path(__file__).resolve().parent.parent
    guide = (root / "docs" / "guide" / "scenarios.md").read_text()
    quotations = re.findall(r"^```\w+ (\S+)\n(.*?)^```$", guide, flags=re.MULTILINE | re.DOTALL)
    assert len(quotations) >= 12
    for path, code in quotations:
        assert code in (root / path).read_text(), (path, code)
