"""Mixed precision: autocast casts as on CUDA, and gradient scaling synchronizes no more than on CUDA."""

import autocast
import pytest
import torch
from torch import nn

from torch_openreg._torch_versions import FUSED_ADAGRAD_SUPPORTS_AMP

LOW = pytest.mark.parametrize("low", [torch.float16, torch.bfloat16])


# ---- Autocast


@pytest.mark.filterwarnings("ignore")
def test_autocast_page_is_up_to_date():
    if autocast.PAGE.made_with_another_torch():
        pytest.skip("the page was generated with another version of torch, whose lists differ")
    assert not autocast.PAGE.is_old()


@LOW
def test_autocast_casts_as_on_cuda(low):
    a = torch.randn(4, 4, device="openreg")
    image, kernel = torch.randn(1, 2, 5, 5, device="openreg"), torch.randn(2, 2, 3, 3, device="openreg")
    with torch.autocast("openreg", dtype=low):
        assert torch.mm(a, a).dtype == low
        assert torch.bmm(a[None], a[None]).dtype == low
        assert nn.functional.linear(a, a).dtype == low
        assert torch.conv2d(image, kernel).dtype == low
        product = torch.mm(a, a)
        assert product.softmax(-1).dtype == torch.float32
        assert product.softmax(-1, dtype=low).dtype == low
        assert torch.layer_norm(product, (4,)).dtype == torch.float32
        assert product.exp().dtype == torch.float32
        assert torch.addcmul(product, product, a).dtype == torch.float32
        assert torch.cat([product, a]).dtype == torch.float32
        assert product.relu().dtype == low  # in no list
        assert torch.mm(a.double(), a.double()).dtype == torch.float64  # float64 is not cast
    assert torch.mm(a, a).dtype == torch.float32


@LOW
def test_results_are_computed_from_the_cast_inputs(low):
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    with torch.autocast("openreg", dtype=low):
        ours = a.openreg() @ b.openreg()
    torch.testing.assert_close(ours.cpu(), a.to(low) @ b.to(low))


@LOW
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_run_in_low_precision(kind, low):
    torch.manual_seed(0)
    layer, data = kind(4, 8, num_layers=2, batch_first=True), torch.randn(2, 5, 4)
    expected, _ = layer(data)
    layer.openreg()
    with torch.autocast("openreg", dtype=low):
        out, _ = layer(data.openreg())
    assert out.dtype == low
    torch.testing.assert_close(out.float().cpu(), expected, rtol=0.02, atol=0.02)
    out.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in layer.parameters())


def test_float16_is_the_default_as_on_cuda():
    a = torch.ones(2, 2, device="openreg")
    with torch.autocast("openreg"):
        assert (a @ a).dtype == torch.float16
    assert torch.amp.is_autocast_available("openreg")
    with (
        pytest.warns(UserWarning, match=r"float16, torch\.bfloat16"),
        torch.autocast("openreg", torch.float64),
    ):
        assert (a @ a).dtype == torch.float32


def test_regions_nest_and_can_be_disabled():
    a = torch.ones(2, 2, device="openreg")
    with torch.autocast("openreg", dtype=torch.float16):
        with torch.autocast("openreg", enabled=False):
            assert not torch.is_autocast_enabled("openreg")
            assert (a @ a).dtype == torch.float32
            with torch.autocast("openreg", dtype=torch.bfloat16):
                assert (a @ a).dtype == torch.bfloat16
        assert (a @ a).dtype == torch.float16
        with torch.autocast("cpu", dtype=torch.bfloat16):  # autocast state is per device
            assert (a @ a).dtype == torch.float16 and (a.cpu() @ a.cpu()).dtype == torch.bfloat16
        with pytest.raises(KeyError), torch.autocast("openreg", dtype=torch.bfloat16):
            raise KeyError
        assert (a @ a).dtype == torch.float16
    assert not torch.is_autocast_enabled("openreg")


def casts(body) -> int:
    """The number of copies in the body, all of which are casts."""
    torch.openreg.reset_operator_stats()
    with torch.openreg.record_operator_stats():
        body()
    stats = torch.openreg.operator_stats()
    return sum(stats[name].calls for name in stats if "copy" in name)


def test_weights_are_cast_once():
    data = torch.ones(2, 4, device="openreg", dtype=torch.float16)
    layer = nn.Linear(4, 4, bias=False).openreg()

    def twice(**options):
        with torch.autocast("openreg", **options):
            layer(data)
            layer(data)

    assert casts(twice) == 1
    assert casts(twice) == 1  # the end of the region cleared the cache
    assert casts(lambda: twice(cache_enabled=False)) == 2
    layer.requires_grad_(False)  # as on CUDA, only casts of leaves that require gradients are cached
    assert casts(twice) == 2


def test_gradients_pass_through_the_cached_cast():
    layer = nn.Linear(3, 3, bias=False).openreg()
    data = torch.randn(2, 3, device="openreg")
    with torch.autocast("openreg", dtype=torch.bfloat16):
        (layer(data) + layer(data)).sum().backward()
    expected = 2 * torch.ones(2, 3).T.bfloat16() @ data.cpu().bfloat16()
    assert layer.weight.grad.dtype == torch.float32
    torch.testing.assert_close(layer.weight.grad.cpu(), expected.float(), rtol=2e-2, atol=1e-2)


def test_unsafe_operators_are_rejected_under_autocast():
    p = torch.full((3,), 0.5, device="openreg")
    with torch.autocast("openreg"):
        with pytest.raises(RuntimeError, match=r"unsafe to autocast.*binary_cross_entropy_with_logits"):
            nn.functional.binary_cross_entropy(p, p)
        with torch.autocast("openreg", enabled=False):
            assert nn.functional.binary_cross_entropy(p, p).item() == pytest.approx(0.6931, abs=1e-4)


class Product(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="openreg", cast_inputs=torch.float16)
    def forward(ctx, a, b):
        assert a.dtype == torch.float16 and not torch.is_autocast_enabled("openreg")
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @torch.amp.custom_bwd(device_type="openreg")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        assert grad.dtype == torch.float16 and not torch.is_autocast_enabled("openreg")
        return grad @ b.t(), a.t() @ grad


class KeepsAutocastState(torch.autograd.Function):
    """Without cast_inputs, backward runs with the autocast state of forward."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="openreg")
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a @ a

    @staticmethod
    @torch.amp.custom_bwd(device_type="openreg")
    def backward(ctx, grad):
        (a,) = ctx.saved_tensors
        KeepsAutocastState.seen = torch.is_autocast_enabled("openreg"), (a @ a).dtype
        return grad.float() @ a.t() + a.t() @ grad.float()


def test_custom_autograd_functions():
    a = torch.randn(3, 3, device="openreg", requires_grad=True)
    with torch.autocast("openreg"):
        product, again = Product.apply(a, a), KeepsAutocastState.apply(a)
    assert product.dtype == again.dtype == torch.float16
    (product.sum() + again.sum()).backward()
    assert a.grad.dtype == torch.float32 and KeepsAutocastState.seen == (True, torch.float16)
    KeepsAutocastState.apply(a).sum().backward()
    assert KeepsAutocastState.seen == (False, torch.float32)


# ---- Gradient scaling


def waits(body) -> dict[str, int]:
    torch.openreg.reset_operator_stats()
    with torch.openreg.record_operator_stats():
        body()
    return {name: stats.waits for name, stats in torch.openreg.operator_stats().items() if stats.waits}


class Training:
    """A few mixed-precision steps, the same on every device."""

    def __init__(self, device: str, optimizer: type[torch.optim.Optimizer], **options) -> None:
        torch.manual_seed(0)
        self.device = device
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
        self.data = torch.linspace(-1, 1, 24).reshape(4, 6).to(device)
        self.optimizer = optimizer(self.model.parameters(), lr=0.05, **options)
        self.scaler = torch.amp.GradScaler(device, init_scale=256.0, growth_interval=2)

    def step(self, factor: float = 1.0) -> None:
        self.optimizer.zero_grad()
        with torch.autocast(self.device, dtype=torch.bfloat16):
            loss = self.model(self.data).float().square().mean() * factor
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def parameters(self) -> list[torch.Tensor]:
        return [p.detach().cpu().clone() for p in self.model.parameters()]


OPTIMIZERS = [
    (torch.optim.AdamW, {"foreach": True}),
    (torch.optim.AdamW, {"foreach": False}),
    (torch.optim.AdamW, {"fused": True}),
    (torch.optim.Adam, {"fused": True}),
    (torch.optim.SGD, {"momentum": 0.9, "foreach": True}),
    (torch.optim.SGD, {"momentum": 0.9, "fused": True}),
    (torch.optim.Adagrad, {"fused": True}),
]


def name(value) -> str:
    return value.__name__ if isinstance(value, type) else "-".join(value)


@pytest.mark.parametrize("optimizer, options", OPTIMIZERS, ids=name)
def test_training_agrees_with_the_cpu(optimizer, options):
    ours, theirs = Training("openreg", optimizer, **options), Training("cpu", optimizer, **options)
    scales = []
    for factor in (1.0, 1.0, float("inf"), 1.0, float("nan"), 1.0):
        before = ours.parameters()
        for training in (ours, theirs):
            training.step(factor)
        scales.append(ours.scaler.get_scale())
        changed = not all(torch.equal(a, b) for a, b in zip(before, ours.parameters(), strict=True))
        assert changed == (factor == 1.0), "a step with non-finite gradients must not change parameters"
        assert ours.scaler.get_scale() == theirs.scaler.get_scale()
    assert scales == [256, 512, 256, 256, 128, 128]
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("optimizer, options", OPTIMIZERS, ids=name)
def test_a_step_synchronizes_no_more_than_on_cuda(optimizer, options):
    training = Training("openreg", optimizer, **options)
    training.step()
    # A fused optimizer reads found_inf on the device; the others read it once on the host.
    on_device = options.get("fused") and (optimizer is not torch.optim.Adagrad or FUSED_ADAGRAD_SUPPORTS_AMP)
    read = {} if on_device else {"aten::_local_scalar_dense": 1}
    assert waits(training.step) == read


def test_unscale_does_not_synchronize_and_is_called_once():
    training = Training("openreg", torch.optim.SGD)
    training.step()
    training.scaler.scale(training.model(training.data).sum()).backward()
    scaled = training.model[0].weight.grad.clone()
    with torch.openreg.assert_no_sync():
        training.scaler.unscale_(training.optimizer)
        nn.utils.clip_grad_norm_(training.model.parameters(), 1e9)
    torch.testing.assert_close(training.model[0].weight.grad * 256, scaled)
    with pytest.raises(RuntimeError, match="already been called"):
        training.scaler.unscale_(training.optimizer)
    assert waits(lambda: training.scaler.step(training.optimizer)) == {"aten::_local_scalar_dense": 1}


def test_gradients_on_two_devices():
    parameters = [nn.Parameter(torch.ones(3, device=f"openreg:{i}")) for i in range(2)]
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    scaler = torch.amp.GradScaler("openreg", init_scale=4.0)
    loss = sum((p * 2).sum().to("openreg:0") for p in parameters)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    assert all(p.tolist() == [-1, -1, -1] for p in parameters)
    scaler.update()
    optimizer.zero_grad()
    scaler.scale((parameters[0] + parameters[1].to("openreg:0") * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert all(p.tolist() == [-1, -1, -1] for p in parameters)
    assert scaler.get_scale() == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bad", [None, float("inf"), float("-inf"), float("nan")])
def test_foreach_unscale_detects_non_finite_gradients(dtype, bad):
    gradients = [torch.full((n,), 8.0, device="openreg", dtype=dtype) for n in (1, 7, 300)]
    gradients.append(torch.full((6, 4), 8.0, device="openreg", dtype=dtype).t())
    if bad is not None:
        gradients[2][123] = bad
    found, inverse = torch.zeros((), device="openreg"), torch.tensor(0.25, device="openreg")
    with torch.openreg.assert_no_sync():
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)
    assert found.item() == (bad is not None)
    assert gradients[0].item() == 2 and (gradients[3] == 2).all().item()


def test_scale_update_follows_found_inf():
    scale, tracker = torch.tensor(8.0, device="openreg"), torch.tensor(0, dtype=torch.int, device="openreg")
    clean, found = torch.tensor(0.0, device="openreg"), torch.tensor(1.0, device="openreg")
    seen = []
    for inf in (clean, clean, clean, found, clean):
        with torch.openreg.assert_no_sync():
            torch._amp_update_scale_(scale, tracker, inf, 2.0, 0.5, 3)
        seen.append((scale.item(), tracker.item()))
    assert seen == [(8, 1), (8, 2), (16, 0), (8, 0), (8, 1)]


def test_the_scaler_is_saved_and_restored():
    training = Training("openreg", torch.optim.SGD)
    for _ in range(3):
        training.step()
    other = torch.amp.GradScaler("openreg")
    other.load_state_dict(training.scaler.state_dict())
    assert other.get_scale() == training.scaler.get_scale() == 512
    assert other.state_dict() == training.scaler.state_dict()


def test_amp_supported_dtypes():
    assert torch.openreg.amp.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
