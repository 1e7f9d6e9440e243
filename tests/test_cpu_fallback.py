"""Without the host engine (make test-no-engine): operators without a kernel run on the CPU, between copies."""

import copy
import warnings

import pytest
import torch
from interpreter import execute, python

from torch_openreg import _C

pytestmark = pytest.mark.skipif(_C.HOST_ENGINE, reason="the host engine is in use: make test-no-engine")


def calls(operator: str) -> int:
    return _C.cpu_fallbacks().get(operator, 0)


def test_results_match_the_cpu():
    cpu = torch.randn(5, 7)
    there = cpu.to("openreg")
    product = there @ there.t()
    assert product.is_openreg and torch.equal(product.cpu(), cpu @ cpu.t())
    assert torch.equal(there.t()[1:].sort().indices.cpu(), cpu.t()[1:].sort().indices)


def test_in_place_operators_write_the_tensor():
    cpu = torch.randn(4, 6)
    there = cpu.to("openreg")
    view = there[:, ::2]
    assert view.mul_(3).data_ptr() == there.data_ptr()
    cpu[:, ::2].mul_(3)
    assert torch.equal(there.cpu(), cpu)


def test_out_argument_receives_the_result():
    there = torch.randn(6, device="openreg")
    out = torch.empty(6, device="openreg")
    assert torch.cos(there, out=out) is out
    assert torch.equal(out.cpu(), torch.cos(there.cpu()))


def test_each_call_is_counted():
    there = torch.ones(3, device="openreg")
    before = calls("aten::sin.out"), calls("aten::sin")
    for _ in range(5):
        there.sin()
    after = calls("aten::sin.out"), calls("aten::sin")
    assert sum(after) - sum(before) == 5


def test_warning_is_emitted_once_per_operator():
    program = """
        import warnings, torch
        a = torch.ones(3, device="openreg")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(3):
                a.tan()
        texts = [str(warning.message) for warning in seen]
        assert len([text for text in texts if "aten::tan" in text and "falls back to the CPU" in text]) == 1, texts
    """
    execute(program)


def test_training_step_matches_the_cpu():
    torch.manual_seed(0)
    models = {}
    reference = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    data, target = torch.randn(4, 8), torch.randint(0, 3, (4,))
    for device in ("cpu", "openreg"):
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        model.load_state_dict(reference.state_dict())
        model.to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.nn.functional.cross_entropy(model(data.to(device)), target.to(device)).backward()
                optimizer.step()
        models[device] = [parameter.detach().cpu() for parameter in model.parameters()]
    assert models["cpu"][0].ne(reference[0].weight).any()
    for expected, actual in zip(models["cpu"], models["openreg"], strict=True):
        torch.testing.assert_close(actual, expected)


def test_random_operators_draw_from_the_device_generator():
    torch.manual_seed(7)
    host_state = torch.random.get_rng_state()
    first, second = (torch.rand(4, device="openreg") for _ in range(2))
    torch.openreg.manual_seed(7)
    assert torch.equal(torch.rand(4, device="openreg").cpu(), first.cpu())
    assert not torch.equal(first.cpu(), second.cpu())
    generator = torch.Generator("openreg").manual_seed(7)
    assert torch.equal(torch.rand(4, device="openreg", generator=generator).cpu(), first.cpu())
    assert generator.get_offset() > 0
    assert torch.equal(torch.random.get_rng_state(), host_state)


def test_convolution_matches_the_cpu():
    layers = [torch.nn.Conv2d(4, 6, 3, groups=2), torch.nn.ConvTranspose2d(4, 6, 3, bias=False)]
    for layer in layers:
        image = torch.randn(2, 4, 8, 8)
        layer.zero_grad()
        expected = layer(image)
        expected.sum().backward()
        gradient = layer.weight.grad
        there = copy.deepcopy(layer).to("openreg")
        there.zero_grad()
        actual = there(image.to("openreg"))
        actual.sum().backward()
        torch.testing.assert_close(actual.cpu(), expected)
        torch.testing.assert_close(there.weight.grad.cpu(), gradient)


def test_fallback_error_raises_and_statistics_name_the_operator():
    there = torch.ones(3, device="openreg")
    with torch.openreg.fallback("error"), pytest.raises(NotImplementedError, match="aten::sqrt"):
        there.sqrt()
    with torch.openreg.fallback("error", allow=["aten::sqrt"]):
        there.sqrt()
    torch.openreg.reset_operator_stats()
    with torch.openreg.record_operator_stats():
        there.sqrt()
    stats = torch.openreg.operator_stats()
    assert [stats[name].waits for name in stats if name.startswith("aten::sqrt")] == [1]


def test_ops_command_shows_which_operators_fall_back():
    lines = dict(
        line.split()[:2] for line in python("-m", "torch_openreg", "ops").stdout.splitlines() if line
    )
    assert (
        lines["aten::sqrt"]
        == lines["aten::sqrt.out"]
        == lines["aten::nonzero"]
        == lines["aten::relu"]
        == "fallback"
    )
    assert lines["aten::asin"] == "composite" and lines["aten::view"] == "view"
    assert lines["aten::empty_strided"] == "device"


def test_errors_of_a_kernel_are_raised_at_the_call():
    there = torch.ones(3, device="openreg")
    with pytest.raises(RuntimeError, match="size of tensor"):
        there + torch.ones(4, device="openreg")
    assert there.add(1).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("module", [torch.nn.BatchNorm1d, torch.nn.InstanceNorm1d])
def test_norms_update_their_statistics(module):
    """The schema of native_batch_norm does not say that it writes them."""
    torch.manual_seed(0)
    cpu = module(4, affine=True, track_running_stats=True)
    there = copy.deepcopy(cpu).to("openreg")
    x = torch.randn(8, 4, 5)
    for _ in range(2):
        cpu(x).sum().backward()
        there(x.to("openreg")).sum().backward()
    for name, expected in cpu.state_dict().items():
        assert torch.equal(there.state_dict()[name].cpu(), expected), name
    assert torch.equal(there.eval()(x.to("openreg")).cpu(), cpu.eval()(x))


def test_statistics_of_a_batch():
    x, mean, var = torch.randn(8, 4), torch.zeros(4), torch.ones(4)
    there = [t.to("openreg") for t in (x, mean, var)]
    torch.batch_norm_update_stats(x, mean, var, 0.1)
    torch.batch_norm_update_stats(*there, 0.1)
    assert torch.equal(there[1].cpu(), mean) and torch.equal(there[2].cpu(), var)
