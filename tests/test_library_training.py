"""Models that train on functions of the driver (make test-discrete), without a fallback to the CPU."""

import copy
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from library_checks import needs_functions

pytestmark = needs_functions

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    yield
    for name in ("demo", "trainer", "language_model"):
        sys.modules.pop(name, None)


OPTIMIZERS = {
    "SGD": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "Adam": (torch.optim.Adam, {"lr": 1e-2}),
    "AdamW": (torch.optim.AdamW, {"lr": 1e-2}),
}


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str, foreach: bool) -> None:
    kind, settings = OPTIMIZERS[name]
    torch.manual_seed(0)
    host = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4), torch.nn.GELU()
    )  # fmt: skip
    x, targets = torch.randn(10, 8), torch.randint(4, (10,))
    device = copy.deepcopy(host).to("openreg")

    def train(model: torch.nn.Module, x: torch.Tensor, targets: torch.Tensor) -> list[torch.Tensor]:
        optimizer = kind(model.parameters(), foreach=foreach, **settings)
        losses = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.detach())
        return losses

    data = x.to("openreg"), targets.to("openreg")
    with torch.openreg.fallback("error"):
        losses = train(device, *data)
    torch.testing.assert_close(torch.stack(losses).cpu(), torch.stack(train(host, x, targets)))
    for there, here in zip(device.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(there.detach().cpu(), here.detach(), rtol=1e-4, atol=1e-5)


def test_demo(examples: None) -> None:
    import demo  # type: ignore[import-not-found]

    losses: dict[str, list[float]] = {}
    for device in ("cpu", "openreg"):
        run = demo.Run(device)
        with torch.openreg.fallback("error"):
            losses[device] = [run.step().item() for _ in range(12)]
            run.accuracy()
    assert losses["openreg"] == pytest.approx(losses["cpu"], rel=1e-4)


def test_language_model(examples: None) -> None:
    import language_model  # type: ignore[import-not-found]
    import trainer  # type: ignore[import-not-found]

    def train(device: str) -> Any:
        torch.manual_seed(0)
        options = trainer.Options(device=device, steps=3, quiet=True)
        return trainer.Trainer(language_model.Repetition(options), options).train()

    with torch.openreg.fallback("error"):
        losses = train("openreg")
    assert losses == pytest.approx(train("cpu"), rel=1e-4)
