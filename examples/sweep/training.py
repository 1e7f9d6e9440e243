"""Training with two streams, copies in both directions and a graph. A program for ``python -m torch_openreg sweep``."""

import recovery
import torch
from torch import nn

DEVICE = torch.accelerator.current_accelerator()
STEPS = 3


def train() -> str:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    copies = torch.Stream(DEVICE)
    losses = []
    for _ in range(STEPS):
        # The batch arrives on another stream, from pinned memory.
        host = torch.randn(8, 16).pin_memory()
        with copies:
            batch = host.to(DEVICE, non_blocking=True)
            target = torch.randint(4, (8,)).to(DEVICE)
        current = torch.accelerator.current_stream()
        current.wait_stream(copies)
        for tensor in (batch, target):
            tensor.record_stream(current)
        loss = nn.functional.cross_entropy(model(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().to("cpu", non_blocking=True))
    torch.accelerator.synchronize()
    return recovery.digest([*losses, *model.parameters(), replay(model)])


def replay(model: nn.Module) -> torch.Tensor:
    """The outputs of a captured forward pass, for two inputs."""
    source = torch.zeros(8, 16, device=DEVICE)
    graph = torch.accelerator.Graph()
    outputs = []
    with torch.no_grad():
        model(source)  # warm-up
        side = torch.Stream(DEVICE)
        side.wait_stream(torch.accelerator.current_stream())
        with side, graph:
            result = model(source)
        for step in range(2):
            source.fill_(step + 1)
            graph.replay()
            outputs.append(result.clone())
    return torch.cat(outputs)


if __name__ == "__main__":
    torch.set_num_threads(1)
    recovery.run(train)
