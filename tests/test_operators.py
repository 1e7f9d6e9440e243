"""Required operators, and the host engine, which runs CPU kernels on device memory."""

import warnings

import pytest
import torch
from blocked_stream import held
from interpreter import execute
from torch.utils.flop_counter import FlopCounterMode


def both(*shape, dtype=torch.float32):
    torch.manual_seed(0)
    cpu = (
        torch.randn(*shape).to(dtype) if dtype.is_floating_point else torch.randint(0, 10, shape, dtype=dtype)
    )
    return cpu, cpu.to("openreg")


# ---- The host engine


def test_results_are_allocated_on_the_device(clean_memory):
    a = torch.ones(1000, device="openreg")
    before = torch.accelerator.memory_allocated()
    b = a + a
    assert b.device == a.device
    assert torch.accelerator.memory_allocated() - before == 4096


OPERATORS = {
    "add": lambda a: a + a * 2 - 1,
    "mm": lambda a: a @ a,
    "softmax": lambda a: a.softmax(-1),
    "sum": lambda a: a.sum(0, keepdim=True),
    "max": lambda a: a.max(1),
    "sort": lambda a: a.sort(0),
    "topk": lambda a: a.topk(3),
    "cat": lambda a: torch.cat([a, a, a.t()], 1),
    "where": lambda a: torch.where(a > 0, a, 0.0),
    "index": lambda a: a[[0, 2], 1:],
    "mask": lambda a: a[a > 0],
    "nonzero": lambda a: a.nonzero(),
    "split": lambda a: a.split(3),
    "unbind": lambda a: a.unbind(),
    "svd": lambda a: torch.linalg.svdvals(a),
    "fft": lambda a: torch.fft.fft(a).abs(),
    "layer_norm": lambda a: torch.nn.functional.layer_norm(a, a.shape[1:]),
    "gelu": lambda a: torch.nn.functional.gelu(a),
    "cumsum": lambda a: a.cumsum(1),
    "einsum": lambda a: torch.einsum("ij,kj->ik", a, a),
    "unique": lambda a: a.round().unique(return_counts=True),
    "foreach": lambda a: torch._foreach_add([a, a], 1),
    "std": lambda a: torch.std_mean(a, 1),
    "view_as_complex": lambda a: torch.view_as_complex(a.reshape(5, 10, 2)).abs(),
    "unfold": lambda a: a.unfold(1, 2, 2) * 1,
    "scatter": lambda a: torch.zeros_like(a).scatter(1, (a > 0).long(), a),
    "meshgrid": lambda a: torch.meshgrid(a[0], a[1], indexing="ij"),
    "histc": lambda a: a.histc(5),
    "equal": lambda a: torch.tensor(torch.equal(a, a + 1)),
    "allclose": lambda a: torch.tensor(torch.allclose(a, a)),
}


def compare(mine, theirs):
    if isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(mine.cpu(), theirs)
    else:
        assert len(mine) == len(theirs)
        for m, t in zip(mine, theirs, strict=True):
            compare(m, t)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_agree_with_the_cpu(name):
    cpu, there = both(10, 10)
    operator = OPERATORS[name]
    compare(operator(there), operator(cpu))


def test_in_place_and_out():
    cpu, there = both(5, 5)
    there.add_(1).mul_(2)
    compare(there, (cpu + 1) * 2)
    out = torch.empty(5, 5, device="openreg")
    pointer = out.data_ptr()
    assert torch.mul(there, 2, out=out) is out
    assert out.data_ptr() == pointer
    compare(out, (cpu + 1) * 4)


def test_out_is_resized():
    a = torch.ones(1000, device="openreg")
    for start in (0, 1, 2000):
        out = torch.empty(start, device="openreg")
        out.resize_(0)
        torch.add(a, a, out=out)
        assert out.shape == (1000,) and out.sum().item() == 2000
        assert out.untyped_storage().nbytes() >= 4000
        out.add_(1)
        assert out.sum().item() == 3000


def test_views_returned_by_kernels_share_the_storage():
    a = torch.arange(6.0, device="openreg")
    v = a.unfold(0, 2, 2)
    v[0, 0] = 42
    assert a[0].item() == 42
    assert v.untyped_storage().data_ptr() == a.untyped_storage().data_ptr()


def test_cpu_scalars_and_indices_are_accepted_but_other_cpu_tensors_raise():
    a = torch.ones(3, device="openreg")
    assert (a + torch.tensor(2.0)).tolist() == [3, 3, 3]
    assert a[torch.tensor([0, 1])].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match=r"same device.*openreg:0 and cpu"):
        a + torch.ones(3)
    with pytest.raises(RuntimeError, match=r"same device.*openreg:0 and openreg:1"):
        a + torch.ones(3, device="openreg:1")
    assert a.sum().item() == 3


def test_cpu_scalar_is_read_at_the_call():
    a, number = torch.ones(3, device="openreg"), torch.tensor(2.0)
    a + number  # fills the launch cache
    torch.openreg.synchronize()
    stream = torch.openreg.Stream()
    with torch.openreg.stream(stream), held(stream):
        b = a + number
        number.fill_(100)
    assert b.tolist() == [3, 3, 3]


def test_the_default_dtype_is_respected():
    a = torch.ones(3, dtype=torch.int64, device="openreg")
    assert (a / a).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert (a / a).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_operators_return_before_their_kernels_run():
    stream = torch.openreg.Stream()
    a = torch.randn(50, 50, device="openreg")
    (a @ a).relu_().sum(0)
    torch.openreg.synchronize()
    with torch.openreg.stream(stream), held(stream):
        b = (a @ a).relu_().sum(0)
        assert not stream.query()
    torch.testing.assert_close(b.cpu(), (a.cpu() @ a.cpu()).relu().sum(0))


def test_data_dependent_errors_raise_at_synchronization_and_the_stream_recovers():
    a, bad = torch.ones(5, device="openreg"), torch.tensor([9], device="openreg")
    with torch.openreg.schedule("async"):
        a[torch.tensor([1], device="openreg")]  # fills the launch cache
        a[bad]
        with pytest.raises(torch.AcceleratorError, match=r"aten::index.Tensor.*index 9 is out of bounds"):
            torch.openreg.synchronize()
    torch.openreg.synchronize()
    assert (a + 1).sum().item() == 10


def test_shape_errors_are_those_of_pytorch():
    a = torch.ones(2, 3, device="openreg")
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        a @ a
    with pytest.raises(IndexError, match="too many indices"):
        a[0, 0, 0]
    with pytest.raises(RuntimeError, match="must match the size"):
        a + torch.ones(4, device="openreg")
    assert a.sum().item() == 6


def test_operator_without_a_kernel_raises():
    a = torch.ones(2, device="openreg")
    with pytest.raises(NotImplementedError, match=r"aten::_cudnn_init_dropout_state.*openreg|_cudnn"):
        torch._cudnn_init_dropout_state(0.5, True, 0, dtype=torch.uint8, device="openreg")
    assert a.sum().item() == 2


def test_factories():
    for make in (
        lambda d: torch.zeros(3, device=d),
        lambda d: torch.arange(0, 10, 3, device=d),
        lambda d: torch.eye(3, device=d),
        lambda d: torch.linspace(0, 1, 5, device=d),
        lambda d: torch.full((2, 2), 7, device=d),
        lambda d: torch.tril_indices(3, 3, device=d),
        lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
        lambda d: torch.empty_strided((2, 3), (1, 2), device=d).fill_(3),
    ):
        mine, theirs = make("openreg:1"), make("cpu")
        assert mine.device == torch.device("openreg:1")
        assert mine.stride() == theirs.stride()
        compare(mine, theirs)


def test_same_seed_gives_same_random_numbers():
    torch.manual_seed(3)
    a = torch.randn(100, device="openreg")
    torch.manual_seed(3)
    assert torch.equal(a, torch.randn(100, device="openreg"))
    assert a.std().item() == pytest.approx(1, abs=0.3)


def test_backward_agrees_with_the_cpu():
    model = torch.nn.Sequential(
        torch.nn.Linear(10, 20), torch.nn.Tanh(), torch.nn.LayerNorm(20), torch.nn.Linear(20, 3)
    )
    data = torch.randn(7, 10)
    model(data).square().mean().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.openreg()
    model(data.openreg()).square().mean().backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert parameter.grad.is_openreg
        compare(parameter.grad, gradient)


def test_training_agrees_with_the_cpu():
    def train(device):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(
            device
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        data = torch.linspace(-1, 1, 64).reshape(16, 4).to(device)
        losses = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    assert train("openreg") == pytest.approx(train("cpu"), rel=1e-4)


def test_printing():
    assert repr(torch.ones(2, device="openreg:1")) == "tensor([1., 1.], device='openreg:1')"


def test_kernels_do_not_replace_the_cpu_allocator():
    a = torch.ones(10, device="openreg") + 1
    host = torch.ones(10)
    assert host.device.type == "cpu" and host.numpy().sum() == 10
    assert a.sum().item() == 20


def test_zero_tensors_without_memory():
    """The derivative of sgn is a zero tensor without memory. Operators accept it as an argument."""
    import torch_openreg._C as C

    before = C.get_schedule()
    for schedule in (0, 1):
        C.set_schedule(schedule, 0)
        a = torch.tensor([1.0, -2.0], device="openreg", requires_grad=True)
        a.sgn().sum().backward()
        assert a.grad.tolist() == [0, 0]
        assert (torch._efficientzerotensor(3, device="openreg") + 1).tolist() == [1, 1, 1]
    C.set_schedule(*before)


def test_complex_nansum_and_nanmean(device):
    data = torch.tensor([1 + 2j, complex("nan"), 3 - 1j], device=device)
    assert torch.nansum(data).item() == 4 + 1j
    assert torch.nanmean(data).item() == 2 + 0.5j
    out = torch.empty(0, dtype=torch.complex64, device=device)
    assert torch.nansum(data[None], 1, out=out).tolist() == [4 + 1j]


def test_overlapping_written_memory_raises_at_the_call(device):
    numbers = torch.arange(8.0, device=device)
    with pytest.raises(RuntimeError, match="written-to tensor"):
        numbers[1:].add_(numbers[:-1])
    with pytest.raises(RuntimeError, match="written-to tensor"):
        torch.ones(1, device=device).expand(3).mul_(2)
    with pytest.raises(RuntimeError, match="written-to tensor"):
        torch.add(numbers[:4], 1, out=numbers[1:5])
    assert numbers[:4].add_(numbers[4:]).tolist() == [4.0, 6.0, 8.0, 10.0]


def test_unsupported_dtype_raises_at_the_call(device):
    with pytest.raises(NotImplementedError, match="not implemented for 'Half'"):
        torch.linalg.cholesky(torch.eye(3, dtype=torch.float16, device=device))
    with pytest.raises(NotImplementedError, match="not implemented for 'Float'"):
        torch.bitwise_not(torch.ones(3, device=device))
    torch.openreg.synchronize()


def test_dtype_check_does_not_change_the_cpu_generator(device):
    before = torch.random.get_rng_state()
    torch.empty(3, dtype=torch.bfloat16, device=device).log_normal_()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_dispatch_modes_do_not_see_operators_inside_kernels():
    counts = set()
    conv, image = torch.nn.Conv2d(3, 4, 3).to("openreg"), torch.randn(1, 3, 8, 8, device="openreg")
    for _ in range(20):
        with FlopCounterMode(display=False) as counter:
            conv(image)
            torch.accelerator.synchronize()
        counts.add(counter.get_total_flops())
    assert len(counts) == 1


def test_ended_threads_return_recycled_launches():
    """Otherwise each thread would take the free list of recycled launches and leak it: some megabytes here."""
    program = """
        import resource, threading, torch
        a = torch.ones(3, device="openreg")
        def many(count):
            for _ in range(count):
                for _ in range(1000):
                    a + 1
                torch.openreg.synchronize()
                thread = threading.Thread(target=lambda: a + 1)
                thread.start()
                thread.join()
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        early = many(30)
        late = many(100)
        assert late - early < 8 << 10, (early, late)
    """
    execute(program)


@pytest.mark.parametrize("schedule", ["async", "blocking"])
def test_resized_output_does_not_share_memory(schedule):
    with torch.openreg.schedule(schedule):
        a = torch.arange(5.0, device="openreg")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # resized outputs warn
            torch.masked_select(a, a > 2, out=torch.empty(1, device="openreg"))
            torch.add(a, a, out=torch.empty(1, device="openreg"))
        made = [torch.full((2,), float(i), device="openreg") for i in range(8)]
        assert [one.tolist() for one in made] == [[i, i] for i in range(8)]


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Adagrad"])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_fused_optimizers_take_a_learning_rate_on_the_host(name, shape):
    results = []
    for device in ("cpu", "openreg"):
        parameter = torch.ones(3, device=device, requires_grad=True)
        optimizer = getattr(torch.optim, name)([parameter], lr=torch.full(shape, 0.1), fused=True)
        for _ in range(2):
            parameter.grad = torch.arange(3.0).to(device)
            optimizer.step()
        results.append(parameter.detach().cpu())
    torch.testing.assert_close(*results)


def test_operators_that_branch_on_the_device_type():
    z = torch.randn(4, dtype=torch.complex64)
    assert torch.equal(z.openreg().conj_physical_().cpu(), z.conj())
    x = torch.tensor([[1, 2, 2], [3, 3, 1]])
    outputs = torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    values, indices = torch.mode(x.openreg(), out=tuple(o.openreg() for o in outputs))
    assert (values.tolist(), indices.tolist()) == tuple(t.tolist() for t in torch.mode(x))


def test_output_plan_is_not_reused_for_another_output_shape():
    """The output plan of logcumsumexp comes from its kernel. It is not valid for an output of another shape."""
    x = torch.randn(3, 4)
    for _ in range(3):
        for output in (torch.empty(0), torch.empty(3, 4)):
            there = output.openreg()
            torch.logcumsumexp(x.openreg(), 1, out=there)
            torch.testing.assert_close(there.cpu(), torch.logcumsumexp(x, 1))


@pytest.mark.parametrize("seed", range(4))
def test_default_dtype_is_read_at_the_call(seed):
    """It is global to all threads. Operators run before the call returns if they depend on another than float32."""
    x = torch.tensor([1, 2, 7])
    with torch.openreg.schedule("adversarial", seed=seed):
        torch.set_default_dtype(torch.float64)
        try:
            there, here = x.openreg(), [x / 3, x.sqrt(), x.float() / 3]
            mine = [there / 3, there.sqrt(), there.float() / 3]
        finally:
            torch.set_default_dtype(torch.float32)
        assert all(torch.equal(m.cpu(), t) and m.dtype == t.dtype for m, t in zip(mine, here, strict=True))


@pytest.mark.parametrize(
    "fill",
    [
        lambda out: torch.arange(4, out=out),
        lambda out: torch.linspace(0, 3, 4, out=out),
        lambda out: torch.logspace(0, 3, 4, out=out),
    ],
)
def test_range_operators_write_only_inside_an_output_view(fill, each_schedule):
    """On a launch cache miss, and on a hit."""
    for _ in range(2):
        host, device = torch.zeros(2, 3), torch.zeros(2, 3, device="openreg")
        for whole in (host, device):
            view = whole.narrow(1, 1, 2)
            fill(view)
            assert view.shape == (2, 2)
        assert torch.equal(device.cpu(), host)


def test_kaiser_window(each_schedule):
    for arguments in ((5,), (5, False), (5, True, 8.0), (1,), (0,)):
        for dtype in (torch.float32, torch.bfloat16):
            expected = torch.kaiser_window(*arguments, dtype=dtype)
            found = torch.kaiser_window(*arguments, dtype=dtype, device="openreg")
            torch.testing.assert_close(found.cpu(), expected)


def test_in_place_operator_that_broadcasts_itself_agrees_with_the_cpu(each_schedule):
    """PyTorch's addbmm_ reads the tensor, and then resizes it to the shape of the result."""
    a, b = torch.randn(5, 5, 5), torch.randn(5, 5, 10)
    for shape in ((), (1,), (5, 1)):
        start = torch.randn(shape)
        theirs, mine = start.clone(), start.to("openreg")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an output with elements is resized
            theirs.addbmm_(a, b)
            mine.addbmm_(a.to("openreg"), b.to("openreg"))
        assert torch.equal(mine.cpu(), theirs)


def bools(device):
    """As a program may store them: a byte that is not 0 is True. A copy of bools would normalize them."""
    a, b = (0, 1, 2, 3, 255, 128, 0, 7), (1, 0, 2, 1, 1, 0, 0, 128)
    return [torch.tensor(x, dtype=torch.uint8).to(device).view(torch.bool) for x in (a, b)]


@pytest.mark.parametrize(
    "function",
    [
        torch.logical_xor,
        lambda a, b: torch.logical_xor(a[::2], b[::2]),
        lambda a, b: torch.diff(a),
        lambda a, b: a.prod(),
        lambda a, b: a == b,
        lambda a, b: a.to(torch.int32) + b,
        lambda a, b: torch.where(a, b, ~b),
    ],
)
def test_every_byte_is_a_bool(function):
    assert torch.equal(function(*bools("openreg")).cpu(), function(*bools("cpu")))


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("shape", [(0,), (), (5,)])
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_output_of_huber_loss_has_the_reduced_shape(reduction, shape):
    x, y = torch.randn(5), torch.randn(5)
    out = torch.empty(shape, device="openreg")
    torch.ops.aten.huber_loss.out(x.to("openreg"), y.to("openreg"), reduction, out=out)
    expected = torch.ops.aten.huber_loss(x, y, reduction)
    assert torch.equal(out.cpu(), expected)


@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_multi_margin_loss_of_one_sample(shape, reduction):
    x, target = torch.randn(shape), torch.zeros(shape[:-1], dtype=torch.int64)
    loss = torch.nn.functional.multi_margin_loss
    result = loss(x.to("openreg"), target.to("openreg"), reduction=reduction)
    assert torch.equal(result.cpu(), loss(x, target, reduction=reduction))
