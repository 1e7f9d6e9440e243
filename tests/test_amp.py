"""Mixed precision: autocast casts as on CUDA."""

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_casts_as_on_cuda(dtype):
    a = torch.randn(4, 4, device="openreg")
    image, kernel = torch.randn(1, 2, 5, 5, device="openreg"), torch.randn(2, 2, 3, 3, device="openreg")
    with torch.autocast("openreg", dtype=dtype):
        assert torch.mm(a, a).dtype == dtype
        assert torch.bmm(a[None], a[None]).dtype == dtype
        assert torch.nn.functional.linear(a, a).dtype == dtype
        assert torch.conv2d(image, kernel).dtype == dtype
        low = torch.mm(a, a)
        assert low.softmax(-1).dtype == torch.float32
        assert torch.layer_norm(low, (4,)).dtype == torch.float32
        assert low.exp().dtype == torch.float32
        assert torch.addcmul(low, low, a).dtype == torch.float32
        with torch.autocast("openreg", enabled=False):
            assert torch.mm(a, a).dtype == torch.float32
        with pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
            torch.nn.functional.binary_cross_entropy(a.sigmoid(), a.sigmoid())
    assert torch.mm(a, a).dtype == torch.float32


def test_a_step_under_autocast():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 2)).openreg()
    with torch.autocast("openreg", dtype=torch.bfloat16):
        loss = model(torch.randn(4, 8, device="openreg")).float().square().mean()
    loss.backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all().item() for p in model.parameters())


def test_what_autocast_asks_of_the_module():
    assert torch.openreg.amp.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
