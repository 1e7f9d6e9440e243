"""Launches with new shapes at every call: argument errors, imports, no synchronization."""

import threading

import pytest
import torch
from blocked_stream import held
from interpreter import execute

F = torch.nn.functional


@pytest.mark.parametrize("rows", [4, 40_000])
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_argument_errors_do_not_depend_on_earlier_calls(rows, order):
    """multi_margin_loss accepts p = 1 and p = 2. p = 3 raises at the call in every order."""
    scores = torch.rand(rows, 5).to("openreg")
    target = torch.zeros(rows, dtype=torch.long, device="openreg")
    outcomes = {}

    def call() -> None:
        for p in order:
            try:
                torch.ops.aten.multi_margin_loss(scores, target, p)
                outcomes[p] = "launched"
            except RuntimeError as error:
                outcomes[p] = str(error)
        torch.openreg.synchronize()

    thread = threading.Thread(target=call)  # a new thread has an empty launch cache
    thread.start()
    thread.join()
    assert outcomes[1] == outcomes[2] == "launched"
    assert "p" in outcomes[3] and outcomes[3] != "launched"


MASK, INDICES = torch.tensor([True, False, True]), torch.tensor([0, 2])
FILLS = {
    "fill_": lambda x, value: x.fill_(value),
    "masked_fill_": lambda x, value: x.masked_fill_(MASK.to(x.device), value),
    "masked_fill_ with a tensor": lambda x, value: x.masked_fill_(MASK.to(x.device), torch.tensor(value)),
    "index_fill_": lambda x, value: x.index_fill_(0, INDICES.to(x.device), value),
    "scatter_": lambda x, value: x.scatter_(0, INDICES.to(x.device), value),
    "foreach_add_": lambda x, value: torch._foreach_add_([x], [value]),
}


def outcome(fill, dtype, device, value):
    try:
        FILLS[fill](torch.zeros(3, dtype=dtype, device=device), value)
    except RuntimeError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (torch.float32, (1 + 0j, 1 + 1j, 2 + 0j, 1j)),
        (torch.float16, (6e4, 65519.0, 7e4, 65504.0, 1e25)),
        (torch.uint8, (200, 255, 256, 300.0, 1e18, 1e19, 1e25, 100)),
        (torch.int64, (1e18, 1e19, 3e38, float("inf"), 1.0)),
        (torch.bfloat16, (3.389e38, 3.4e38, 1.0)),
    ],
    ids=str,
)
def test_errors_of_numbers_do_not_depend_on_earlier_numbers(fill, dtype, values):
    """The kernels convert the number to the dtype, which raises at the call if it does not fit."""
    for value in values:
        assert outcome(fill, dtype, "openreg", value) == outcome(fill, dtype, "cpu", value), value
    torch.openreg.synchronize()


def test_training_step_does_not_import_dynamo():
    """Meta kernels in Python import hundreds of modules at their first call."""
    execute(
        """
        import sys, torch
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).to("openreg")
        words = torch.nn.Embedding(100, 64).to("openreg")
        stem = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.MaxPool2d(2)).to("openreg")
        for batch in (2, 64):  # small calls do a dry run, large calls do not
            tokens = torch.randint(0, 100, (batch, 32)).to("openreg")
            images = torch.randn(batch, 1, 28, 28).to("openreg")
            loss = layer(words(tokens)).square().mean() + stem(images).mean()
            loss.backward()
        assert loss.isfinite().item()
        assert "torch._dynamo" not in sys.modules
        """
    )


@pytest.mark.parametrize("grad", [False, True])
def test_attention_over_a_growing_sequence_does_not_synchronize(grad):
    """Each length is a cache miss. The stream is blocked, so a call that synchronizes would hang."""
    query = torch.randn(1, 2, 1, 16)
    cache = torch.randn(1, 2, 40, 16)
    on_device = [t.to("openreg").requires_grad_(grad) for t in (query, cache)]
    with torch.openreg.schedule("async"), held(torch.openreg.current_stream()):
        results = [
            F.scaled_dot_product_attention(on_device[0], on_device[1][:, :, :n], on_device[1][:, :, :n])
            for n in range(9, 40)
        ]
    for n, result in zip(range(9, 40), results, strict=True):
        expected = F.scaled_dot_product_attention(query, cache[:, :, :n], cache[:, :, :n])
        torch.testing.assert_close(result.detach().cpu(), expected)


def test_layer_norm_of_new_shapes_does_not_synchronize():
    norm = torch.nn.LayerNorm(8)
    data = torch.randn(70, 8)
    norm_there, data_there = torch.nn.LayerNorm(8).to("openreg"), data.to("openreg")
    with torch.openreg.schedule("async"), held(torch.openreg.current_stream()):
        results = [norm_there(data_there[:n]) for n in range(1, 70)]
    for n, result in zip(range(1, 70), results, strict=True):
        torch.testing.assert_close(result.detach().cpu(), norm(data[:n]).detach())
