"""A small model, its training in one process, and the part of a rank."""

import torch

DEVICE = "openreg"


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def batches(world, steps=4, rows=6):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(world * rows, 8, generator=generator) for _ in range(steps)]


def train_alone(world, model=None, **optimizer):
    """The parameters after training one process on the batches of all ranks."""
    model = model or make_model()
    sgd = torch.optim.SGD(model.parameters(), 0.1, **optimizer)
    for batch in batches(world):
        sgd.zero_grad()
        model(batch).square().mean().backward()
        sgd.step()
    return list(model.parameters())


def mine(batch, rank, world):
    return batch.chunk(world)[rank].to(DEVICE)


def same(actual, expected):
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.detach().cpu(), b.detach().cpu(), rtol=1e-5, atol=1e-6)
