"""Lightning: Trainer and Fabric on the device, with the registered accelerator."""

import pytest
import torch
from missing_libraries import library
from torch import nn

L = library("lightning")
device = pytest.importorskip("torch_openreg.integrations.lightning")

pytestmark = pytest.mark.filterwarnings("ignore")


class Module(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.losses, self.seen = [], []

    def training_step(self, batch, index):
        out = self.layers(batch[0])
        loss = out.float().square().mean()
        self.seen.append((str(out.device), out.dtype))
        self.losses.append(loss.detach())
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("validation", self.layers(batch[0]).square().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.05)


def loader():
    data = torch.linspace(-1, 1, 64).reshape(16, 4)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data), batch_size=4)


def fit(tmp_path, epochs=2, resume=None, **options) -> tuple[Module, L.Trainer]:
    module = Module()
    trainer = L.Trainer(
        max_epochs=epochs, logger=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=tmp_path, **options,
    )  # fmt: skip
    trainer.fit(module, loader(), loader(), ckpt_path=resume, weights_only=False)
    return module, trainer


def ours(**changes) -> dict:
    return {"accelerator": "openreg", "strategy": device.STRATEGY, "devices": 1, **changes}


def test_trainer_losses_match_the_cpu(tmp_path):
    module, trainer = fit(tmp_path, **ours())
    reference, _ = fit(tmp_path, accelerator="cpu", devices=1)
    assert {where for where, _ in module.seen} == {"openreg:0"}
    torch.testing.assert_close(torch.stack(module.losses).cpu(), torch.stack(reference.losses))
    assert trainer.callback_metrics["validation"].item() < 0.3
    assert isinstance(trainer.accelerator, device.Accelerator)


@pytest.mark.parametrize("precision, dtype", [("bf16-mixed", torch.bfloat16), ("16-mixed", torch.float16)])
def test_mixed_precision(tmp_path, precision, dtype):
    module, _ = fit(tmp_path, **ours(plugins=device.mixed_precision(precision)))
    exact, _ = fit(tmp_path, **ours())
    assert {seen for _, seen in module.seen} == {dtype}
    torch.testing.assert_close(torch.stack(module.losses), torch.stack(exact.losses), rtol=0.05, atol=0.02)


def test_resume_from_checkpoint(tmp_path):
    whole, _ = fit(tmp_path, epochs=3, **ours())
    _, trainer = fit(tmp_path, **ours())
    file = tmp_path / "checkpoint.ckpt"
    trainer.save_checkpoint(file)
    rest, _ = fit(tmp_path, epochs=3, resume=file, **ours())
    assert torch.equal(torch.stack(rest.losses), torch.stack(whole.losses[-4:]))


def test_second_device(tmp_path):
    module, _ = fit(tmp_path, **ours(strategy=device.SingleDevice("openreg:1")))
    assert {where for where, _ in module.seen} == {"openreg:1"}
    torch.openreg.set_device(0)


def test_missing_strategy_raises(tmp_path):
    with pytest.raises(ValueError, match="pass strategy='single_openreg' too"):
        fit(tmp_path, accelerator="openreg", devices=1)


def test_parse_devices():
    parse = device.Accelerator.parse_devices
    assert parse(1) == [0] and parse("2") == [0, 1] and parse(-1) == [0, 1]
    assert parse([1]) == [1] and parse("1,") == [1] and parse("0,1") == [0, 1]
    with pytest.raises(ValueError, match="invalid openreg device index 7"):
        parse([7])


def test_fabric():
    losses = {}
    for name, options in {
        "cpu": {"accelerator": "cpu", "devices": 1},
        "openreg": {"accelerator": "openreg", "strategy": device.STRATEGY, "devices": 1},
    }.items():
        torch.manual_seed(0)
        fabric = L.Fabric(**options)
        model = nn.Linear(4, 1)
        model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
        losses[name] = []
        for (batch,) in fabric.setup_dataloaders(loader()):
            assert batch.device.type == name
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            fabric.backward(loss)
            optimizer.step()
            losses[name].append(loss.item())
    assert losses["openreg"] == pytest.approx(losses["cpu"], rel=1e-5)
