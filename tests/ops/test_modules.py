"""Compares every module and optimizer of PyTorch's databases with the CPU: results, and gradients of all inputs."""

import copy

import pytest
import torch
from agreement import ALL, DAY, DEVICE, map_tensors, tensors
from exceptions import ROUNDED_MODULES
from torch import nn
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

DTYPES = [torch.float32, torch.float64] if ALL else [(torch.float32, torch.float64)[DAY % 2]]
MODULES = {info.name: info for info in module_db}
OPTIMIZERS = {info.optim_cls.__name__: info for info in optim_db}


def is_random_module(module: nn.Module, training: bool) -> bool:
    """Whether the results are random. Lazy modules initialize their parameters at the first call."""
    is_random = isinstance(
        module,
        nn.modules.dropout._DropoutNd | nn.RReLU | nn.FractionalMaxPool2d | nn.FractionalMaxPool3d,
    )
    drops = training and any(
        getattr(part, "p", 0) or getattr(part, "dropout", 0) for part in module.modules()
    )
    return is_random or drops or isinstance(module, nn.modules.lazy.LazyModuleMixin)


def step(module: nn.Module, arguments: tuple, device: str) -> tuple[list, list]:
    """The results, and the gradients of the parameters and the inputs."""

    def new_leaf(x: torch.Tensor) -> torch.Tensor:
        return x.detach().clone().to(device).requires_grad_(x.requires_grad)

    args, kwargs = map_tensors(new_leaf, arguments)
    results = tensors(module(*args, **kwargs))
    total = [x.abs().double().sum() for x in results if x.requires_grad]
    if total:
        sum(total).backward()
    leaves = [*module.parameters(), *(x for x in tensors((args, kwargs)) if x.requires_grad)]
    return results, [x.grad for x in leaves]


def same(mine: list, theirs: list, what: str, values: bool) -> None:
    for m, t in zip(mine, theirs, strict=True):
        assert (m is None) == (t is None), what
        if t is None:
            continue
        assert m.device.type == DEVICE, what
        assert (m.shape, m.dtype, m.layout) == (t.shape, t.dtype, t.layout), what
        if t.layout == torch.strided and t.numel() > 1:
            assert m.stride() == t.stride(), what
        if values:
            m, t = (x.detach().to_dense().cpu() for x in (m, t))
            rtol, atol = (1e-4, 1e-4) if what.split()[0] in ROUNDED_MODULES else (0, 0)
            torch.testing.assert_close(
                m, t, rtol=rtol, atol=atol, equal_nan=True, msg=lambda text: f"{what}: {text}"
            )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", MODULES)
def test_module(name: str, training: bool) -> None:
    info = MODULES[name]
    for dtype in DTYPES:
        torch.manual_seed(0)
        inputs = info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=True, training=training
        )
        for number, given in enumerate(inputs):
            if given.forward_input is None:
                continue
            theirs = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
            theirs = theirs.to(dtype).train(training)
            mine = copy.deepcopy(theirs).to(DEVICE)
            arguments = given.forward_input.args, given.forward_input.kwargs
            what = f"{name} {dtype} input {number}"
            values = not is_random_module(theirs, training)
            for m, t in zip(step(mine, arguments, DEVICE), step(theirs, arguments, "cpu"), strict=True):
                same(m, t, what, values)
    torch.openreg.synchronize()


def trained(info: object, settings: dict, device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shapes = [(4, 3), (5, 2)] if info.optim_cls is torch.optim.Muon else [(4, 3), (5,), ()]
    parameters = [nn.Parameter(torch.randn(shape).to(device)) for shape in shapes]
    optimizer = info.optim_cls(parameters, **settings)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = sum((p.square() * (i + 1)).sum() for i, p in enumerate(parameters))
        loss.backward()
        if info.only_supports_sparse_grads:
            for p in parameters:
                p.grad = p.grad.to_sparse()
        return loss

    for _ in range(4):
        optimizer.step(closure)
    return [p.detach().cpu() for p in parameters]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["for-loop", "foreach", "fused"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name: str, form: str) -> None:
    info = OPTIMIZERS[name]
    if form != "for-loop" and form not in info.supported_impls:
        pytest.skip(f"{name} has no {form} implementation")
    compared = 0
    for given in info.optim_inputs_func(device="cpu"):
        forms = {one: one == form for one in ("foreach", "fused") if one in info.supported_impls}
        settings = {**forms, **given.kwargs}
        try:
            theirs = trained(info, settings, "cpu")
        except (RuntimeError, TypeError, ValueError):  # the CPU rejects this combination of settings
            continue
        for m, t in zip(trained(info, settings, DEVICE), theirs, strict=True):
            torch.testing.assert_close(m, t, rtol=0, atol=0)
        compared += 1
    assert compared > 0
