"""accelerate: device selection by environment variable, mixed precision, dispatched models."""

import pytest
import torch
from missing_libraries import library
from torch import nn

accelerate = library("accelerate")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def make_accelerator(monkeypatch):
    """Function that creates an Accelerator for a device."""

    def make(device: str, **options):
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", device)
        return accelerate.Accelerator(**options)

    yield make
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


def train(accelerator, folder=None) -> list[float]:
    accelerate.utils.set_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
    data = torch.utils.data.TensorDataset(torch.linspace(-1, 1, 64).reshape(16, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    losses = []
    for _ in range(2):
        for (batch,) in loader:
            assert batch.device == accelerator.device
            with accelerator.accumulate(model):
                loss = model(batch).square().mean()
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss).item())
    if folder is not None:
        accelerator.save_state(folder)
        before = [p.detach().clone() for p in model.parameters()]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        accelerator.load_state(folder)
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    return losses


def test_training_losses_match_the_cpu(make_accelerator, tmp_path):
    accelerator = make_accelerator("openreg:0", gradient_accumulation_steps=2)
    assert accelerator.device == torch.device("openreg", 0)
    ours = train(accelerator, tmp_path)
    assert ours == pytest.approx(train(make_accelerator("cpu", gradient_accumulation_steps=2)), rel=1e-4)


def test_mixed_precision(make_accelerator):
    exact = train(make_accelerator("openreg:0"))
    accelerator = make_accelerator("openreg:0", mixed_precision="bf16")
    with accelerator.autocast():
        assert (
            torch.ones(2, 2, device="openreg") @ torch.ones(2, 2, device="openreg")
        ).dtype == torch.bfloat16
    mixed = train(accelerator)
    assert mixed != exact and mixed == pytest.approx(exact, rel=0.1, abs=0.01)


def test_float16_raises_for_unlisted_devices(make_accelerator):
    # accelerate has a fixed list of devices. If this stops raising, update the guide.
    with pytest.raises(ValueError, match=r"fp16 mixed precision requires .*\(not 'openreg'\)"):
        train(make_accelerator("openreg:0", mixed_precision="fp16"))


def test_model_on_two_devices():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    expected = model(torch.ones(1, 4))
    spread = accelerate.dispatch_model(model, {"0": "openreg:0", "1": "openreg:1"}, force_hooks=True)
    assert [spread[i].weight.device.index for i in (0, 1)] == [0, 1]
    torch.testing.assert_close(spread(torch.ones(1, 4)).cpu(), expected)


def test_cpu_offload():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    expected = model(torch.ones(1, 4))
    offloaded = accelerate.cpu_offload(model, execution_device="openreg:0")
    out = offloaded(torch.ones(1, 4, device="openreg"))
    assert out.is_openreg
    torch.testing.assert_close(out.cpu(), expected)


def test_load_checkpoint_into_empty_weights(tmp_path):
    model = nn.Linear(4, 2)
    accelerate.Accelerator(cpu=True).save_model(model, tmp_path)
    with accelerate.init_empty_weights():
        empty = nn.Linear(4, 2)
    # By index, because safetensors opens the file and does not accept the name openreg.
    loaded = accelerate.load_checkpoint_and_dispatch(empty, tmp_path, device_map={"": 1})
    assert loaded.weight.device == torch.device("openreg", 1)
    assert torch.equal(loaded.weight.cpu(), model.weight)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
