"""PyTorch's autograd engine, which runs backward on threads per device, with the device's kernels."""

import threading

import pytest
import torch
import torch.autograd.forward_ad as fwd
from blocked_stream import held
from torch import nn
from torch.utils.checkpoint import checkpoint

openreg = torch.openreg


# ---- Streams and threads


class RecordBackward(torch.autograd.Function):
    """Doubles its input, and records the stream, device and thread of its backward."""

    seen: list[tuple[torch.Stream, int, int]] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        RecordBackward.seen.append(
            (openreg.current_stream(), openreg.current_device(), threading.get_ident())
        )
        return grad * 2


@pytest.fixture
def seen():
    RecordBackward.seen.clear()
    yield RecordBackward.seen
    RecordBackward.seen.clear()


def test_backward_runs_on_the_stream_of_its_forward(seen):
    x = torch.ones(4, device="openreg", requires_grad=True)
    first, second = openreg.Stream(), openreg.Stream()
    first.wait_stream(openreg.current_stream())
    with openreg.stream(first):
        y = RecordBackward.apply(x)
    second.wait_stream(first)
    with openreg.stream(second):
        z = RecordBackward.apply(y)
        loss = z.sum()
    openreg.current_stream().wait_stream(second)
    loss.backward()
    assert [stream for stream, _, _ in seen] == [second, first]
    assert x.grad.tolist() == [4, 4, 4, 4]


def test_callers_stream_waits_for_backward_on_other_streams(seen):
    side = openreg.Stream()
    x = torch.ones(4, device="openreg", requires_grad=True)
    side.wait_stream(openreg.current_stream())
    with openreg.stream(side):
        loss = RecordBackward.apply(x).sum()
    with openreg.schedule("async"):
        with held(side):
            # The program does not wait: at its end, the engine makes the caller's stream wait.
            loss.backward()
            twice = x.grad * 2
            assert not openreg.current_stream().query()
        assert twice.tolist() == [4, 4, 4, 4]


@pytest.mark.simulated
def test_gradients_from_several_streams_are_accumulated(seen):
    x = torch.ones(1000, device="openreg", requires_grad=True)
    for seed in range(10):
        with openreg.schedule("adversarial", seed):
            x.grad = None
            parts = []
            for _ in range(3):
                side = openreg.Stream()
                side.wait_stream(openreg.current_stream())
                with openreg.stream(side):
                    parts.append(RecordBackward.apply(x).sum())
                openreg.current_stream().wait_stream(side)
            sum(parts).backward()
            assert x.grad.sum().item() == 6000, f"seed {seed}"


def test_each_device_has_an_engine_thread(seen):
    xs = [torch.ones(3, device=f"openreg:{i}", requires_grad=True) for i in (0, 1)]
    sum(RecordBackward.apply(x).sum().to("openreg:0") for x in xs).backward()
    by_device = {device: thread for _, device, thread in seen}
    assert sorted(by_device) == [0, 1]
    assert len({*by_device.values(), threading.get_ident()}) == 3
    assert all(x.grad.device == x.device and x.grad.tolist() == [2, 2, 2] for x in xs)
    assert openreg.current_device() == 0


def test_backward_does_not_synchronize():
    x = torch.randn(8, 8, device="openreg", requires_grad=True)
    (x @ x).tanh().sum().backward()
    x.grad = None
    loss = (x @ x).tanh().sum()
    with openreg.assert_no_sync():
        loss.backward()
    assert x.grad.shape == x.shape


def test_backward_from_several_threads():
    weight = torch.randn(16, 16, device="openreg")
    results = {}

    def body(i: int) -> None:
        x = torch.full((16,), float(i), device="openreg", requires_grad=True)
        for _ in range(10):
            x.grad = None
            (weight @ x).square().sum().backward()
        results[i] = x.grad.cpu()

    threads = [threading.Thread(target=body, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    host = weight.cpu()
    for i in range(4):
        expected = 2 * host.T @ (host @ torch.full((16,), float(i)))
        torch.testing.assert_close(results[i], expected, rtol=1e-4, atol=1e-3)


def test_errors_in_backward_are_raised_in_the_caller():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("on purpose")

    x = torch.ones(3, device="openreg", requires_grad=True)
    with pytest.raises(KeyError, match="on purpose"):
        Fails.apply(x).sum().backward()
    loss = x.sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y = x.exp().sum()
        y.backward()
        y.backward()


# ---- Derivatives


def test_double_backward():
    x = torch.tensor([2.0, 3.0], device="openreg", requires_grad=True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [12, 18]


def double(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, dtype=torch.float64, device="openreg", requires_grad=True)


FUNCTIONS = {
    "products": (lambda x, y: (x @ y).tanh().logsumexp(0), [(3, 4), (4, 2)]),
    "convolution": (lambda x, w: torch.conv2d(x, w, padding=1).square(), [(1, 2, 4, 4), (3, 2, 3, 3)]),
    "normalization": (lambda x, w: nn.functional.layer_norm(x, (4,), w), [(3, 4), (4,)]),
    "indexing": (lambda x: x[[0, 2, 0]].prod(0), [(3, 2)]),
    "linear algebra": (lambda x: torch.linalg.inv(x @ x.T + 3 * torch.eye(3, device="openreg")), [(3, 3)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck(name):
    torch.manual_seed(0)
    function, shapes = FUNCTIONS[name]
    inputs = [double(*shape) for shape in shapes]
    assert torch.autograd.gradcheck(function, inputs, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("name", ["products", "normalization", "indexing"])
def test_forward_mode_by_finite_differences(name):
    torch.manual_seed(0)
    function, shapes = FUNCTIONS[name]
    inputs = [double(*shape) for shape in shapes]
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, check_backward_ad=False)


def test_complex_derivatives():
    torch.manual_seed(0)
    z = torch.randn(3, dtype=torch.complex128, device="openreg", requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: (t * t.conj()).real.sqrt(), (z,))


def test_forward_mode():
    x, tangent = torch.tensor([1.0, 2.0], device="openreg"), torch.tensor([1.0, 10.0], device="openreg")
    with fwd.dual_level():
        dual = fwd.make_dual(x, tangent)
        value, derivative = fwd.unpack_dual(dual**2 + dual)
    assert value.tolist() == [2, 6] and derivative.tolist() == [3, 50]
    assert derivative.is_openreg


# ---- torch.func


def test_functional_transforms():
    x = torch.arange(6.0, device="openreg").reshape(3, 2)
    assert torch.func.vmap(torch.dot)(x, x).tolist() == [1, 13, 41]
    torch.testing.assert_close(torch.func.grad(lambda t: t.sin().sum())(x).cpu(), x.cpu().cos())
    value, tangent = torch.func.jvp(lambda t: t * t, (x,), (torch.ones_like(x),))
    assert tangent.cpu().equal(2 * x.cpu()) and value.is_openreg
    _, pull = torch.func.vjp(lambda t: t * t, x)
    assert pull(torch.ones_like(x))[0].cpu().equal(2 * x.cpu())


def test_jacobians_and_hessians():
    def cube(t):
        return t**3

    x = torch.tensor([1.0, 2.0], device="openreg")
    for jacobian in (torch.func.jacrev(cube)(x), torch.func.jacfwd(cube)(x)):
        assert jacobian.tolist() == [[3, 0], [0, 12]] and jacobian.is_openreg
    assert torch.func.hessian(lambda t: cube(t).sum())(x).tolist() == [[6, 0], [0, 12]]


def test_per_sample_gradients():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    data = torch.randn(5, 3)

    def each(model, data):
        parameters = {k: v.detach() for k, v in model.named_parameters()}

        def loss(parameters, sample):
            return torch.func.functional_call(model, parameters, (sample[None],)).square().sum()

        return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, data)

    expected = each(model, data)
    ours = each(model.to("openreg"), data.to("openreg"))
    for name in expected:
        torch.testing.assert_close(ours[name].cpu(), expected[name])


def test_vmap_randomness_modes():
    def noise(t):
        return t + torch.randn(4, device="openreg")

    zeros = torch.zeros(3, 4, device="openreg")
    different = torch.func.vmap(noise, randomness="different")(zeros)
    same = torch.func.vmap(noise, randomness="same")(zeros)
    assert not torch.equal(different[0], different[1]) and torch.equal(same[0], same[1])
    with pytest.raises(RuntimeError, match="randomness"):
        torch.func.vmap(noise)(zeros)


# ---- Hooks


def test_hooks_run_in_order():
    order = []
    x = torch.ones(2, device="openreg", requires_grad=True)
    y = x * 3
    y.retain_grad()
    x.register_hook(lambda g: order.append("tensor") or g * 2)
    x.register_post_accumulate_grad_hook(lambda t: order.append(("accumulated", t.grad.tolist())))
    y.grad_fn.register_prehook(lambda g: order.append("before"))
    y.grad_fn.register_hook(lambda *_: order.append("after"))
    y.sum().backward()
    assert order == ["before", "after", "tensor", ("accumulated", [6, 6])]
    assert y.grad.tolist() == [1, 1]


def test_module_hooks():
    seen = {}
    layer = nn.Linear(2, 2, bias=False).openreg()
    layer.register_full_backward_pre_hook(lambda m, out: seen.update(out=out[0].sum().item()))
    layer.register_full_backward_hook(lambda m, inp, out: (inp[0] * 0,))
    x = torch.ones(1, 2, device="openreg", requires_grad=True)
    layer(x).sum().backward()
    assert seen == {"out": 2} and x.grad.tolist() == [[0, 0]]


# ---- Saved tensors


def test_save_on_cpu_uses_pinned_memory():
    packed = []

    class Spy(torch.autograd.graph.save_on_cpu):
        def __init__(self) -> None:
            super().__init__(pin_memory=True, device_type="openreg")
            pack = self.pack_hook
            self.pack_hook = lambda tensor: packed.append(pack(tensor)) or packed[-1]

    x = torch.randn(64, 64, device="openreg", requires_grad=True)
    with Spy():
        y = (x @ x).sigmoid().square().sum()
    stored = [tensor for _, tensor in packed]
    assert stored and all(tensor.device.type == "cpu" and tensor.is_pinned() for tensor in stored)
    y.backward()
    reference = x.detach().cpu().requires_grad_()
    (reference @ reference).sigmoid().square().sum().backward()
    torch.testing.assert_close(x.grad.cpu(), reference.grad, rtol=1e-4, atol=1e-5)


def test_offloading_frees_device_memory(clean_memory):
    def forward(x):
        for _ in range(8):
            x = x.sin()
        return x.sum()

    x = torch.randn(1 << 18, device="openreg", requires_grad=True)  # 1 MiB
    used = []
    for hooks in (
        torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        torch.autograd.graph.save_on_cpu(pin_memory=True, device_type="openreg"),
    ):
        before = torch.accelerator.memory_allocated()
        with hooks:
            loss = forward(x)
        used.append(torch.accelerator.memory_allocated() - before)
        loss.backward()
        x.grad, loss = None, None
    assert used[0] >= 7 << 20 and used[1] < 1 << 20


def test_saved_tensors_hooks_receive_device_tensors():
    seen = []
    x = torch.ones(3, device="openreg", requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: seen.append(t.device.type) or t.cpu(), lambda t: t.to("openreg")
    ):
        y = x.exp()
    y.sum().backward()
    assert seen == ["openreg"]
    torch.testing.assert_close(x.grad, x.detach().exp())


# ---- Activation checkpointing


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.5), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        self.calls += 1
        return self.layers(x)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("autocast", [False, True])
def test_checkpointing_gives_the_same_gradients(reentrant, autocast):
    gradients = []
    for checkpointed in (False, True):
        torch.manual_seed(0)
        block = Block().openreg()
        x = torch.randn(8, 16, device="openreg", requires_grad=True)
        with torch.autocast("openreg", dtype=torch.bfloat16, enabled=autocast):
            y = checkpoint(block, x, use_reentrant=reentrant) if checkpointed else block(x)
        torch.randn(5, device="openreg")  # advances the generator
        state = openreg.get_rng_state()
        y.float().square().sum().backward()
        assert torch.equal(openreg.get_rng_state(), state), "recomputation must not change the generator"
        assert block.calls == (2 if checkpointed else 1)
        gradients.append([x.grad, *(p.grad for p in block.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_checkpointing_without_preserved_rng_state_draws_new_numbers():
    torch.manual_seed(0)
    x = torch.ones(1000, device="openreg", requires_grad=True)
    y = checkpoint(
        lambda t: nn.functional.dropout(t, 0.5) * 1.0, x, use_reentrant=False, preserve_rng_state=False
    )
    y.sum().backward()
    assert not torch.equal(x.grad, y.detach())


def test_checkpointing_saves_memory(clean_memory):
    def peak(checkpointed: bool) -> int:
        torch.manual_seed(0)
        x = torch.randn(1 << 16, device="openreg", requires_grad=True)
        before = torch.accelerator.memory_allocated()

        def segment(t):
            for _ in range(10):
                t = t.sin()
            return t

        y = checkpoint(segment, x, use_reentrant=False) if checkpointed else segment(x)
        return torch.accelerator.memory_allocated() - before + 0 * y.numel()

    assert peak(True) * 5 < peak(False)


# ---- Anomaly mode, inference mode


def test_anomaly_mode_names_the_forward_line():
    x = torch.tensor([-1.0], device="openreg", requires_grad=True)
    with (
        pytest.warns(UserWarning, match="x.sqrt"),
        pytest.raises(RuntimeError, match=r"SqrtBackward0.*returned nan"),
        torch.autograd.detect_anomaly(),
    ):
        (x.sqrt() * 0).sum().backward()


def test_in_place_changes_of_saved_tensors_are_detected():
    x = torch.ones(3, device="openreg", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_inference_mode():
    with torch.inference_mode():
        x = torch.ones(3, device="openreg")
        assert (x + x).is_inference() and not (x + x).requires_grad
    weight = torch.ones(3, device="openreg", requires_grad=True)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        weight * x
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        x.add_(1)
    assert (weight * x.clone()).requires_grad


# ---- Custom functions; those in C++ are in csrc/operators/examples/ and tests/test_scenarios.py


class Scale(torch.autograd.Function):
    """Supports double backward, vmap and forward mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.factor = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx, grad):
        return Scale.apply(grad, ctx.factor), None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent * ctx.factor


def test_custom_functions():
    torch.manual_seed(0)
    x = double(3)
    assert torch.autograd.gradcheck(lambda t: Scale.apply(t, 3.0) ** 2, (x,))
    assert torch.autograd.gradgradcheck(lambda t: Scale.apply(t, 3.0) ** 2, (x,))
    ones = torch.ones(2, 3, device="openreg")
    assert torch.func.vmap(lambda t: Scale.apply(t, 2.0))(ones).tolist() == [[2, 2, 2]] * 2
    with fwd.dual_level():
        dual = Scale.apply(fwd.make_dual(ones, ones), 5.0)
        assert fwd.unpack_dual(dual).tangent.tolist() == [[5, 5, 5]] * 2


@pytest.mark.host_engine
def test_backward_of_cpp_functions_runs_on_the_stream_of_forward():
    x = torch.tensor([-1.0, 2.0], device="openreg", requires_grad=True)
    side = openreg.Stream()
    side.wait_stream(openreg.current_stream())
    with openreg.stream(side):
        loss = torch.ops.openreg.custom_abs(x).sum()
    with openreg.schedule("async"):
        with held(side):
            loss.backward()
            assert not openreg.current_stream().query(), "the gradient depends on the blocked stream"
        assert x.grad.tolist() == [-1, 1]
