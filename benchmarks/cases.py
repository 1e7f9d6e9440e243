"""The cases of `make bench`. `Case.make` returns the function to measure on a device."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

Body = Callable[[], object]


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[torch.device], Body]
    count: int
    limit: float | None = None  # maximum ratio to the time on the CPU


def empty(device: torch.device) -> Body:
    return lambda: torch.empty(16, device=device)


def add(elements: int) -> Callable[[torch.device], Body]:
    def make(device: torch.device) -> Body:
        a = torch.ones(elements, device=device)
        return lambda: a + a

    return make


def add_scalar_(device: torch.device) -> Body:
    a = torch.ones(16, device=device)
    return lambda: a.add_(1)


def view(device: torch.device) -> Body:
    a = torch.ones(16, device=device)
    return lambda: a.view(4, 4)


def item(device: torch.device) -> Body:
    a = torch.ones(16, device=device)[:1]
    return lambda: (a + a).item()


def softmax(device: torch.device) -> Body:
    a = torch.randn(1024, 1024).to(device)
    return lambda: torch.softmax(a, -1)


def mm(device: torch.device) -> Body:
    a = torch.randn(512, 512).to(device)
    return lambda: a @ a


def training_step(model: nn.Module, shape: tuple[int, ...], device: torch.device) -> Body:
    model = model.to(device)
    data = torch.randn(*shape).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def mlp(width: int, batch: int) -> Callable[[torch.device], Body]:
    def make(device: torch.device) -> Body:
        torch.manual_seed(0)
        layers = [
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 10),
        ]
        return training_step(nn.Sequential(*layers), (batch, width), device)

    return make


def convolutional_net(device: torch.device) -> Body:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
    return training_step(nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, 10)), (16, 3, 32, 32), device)


def transformer_layer(device: torch.device) -> Body:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    return training_step(layer, (8, 64, 128), device)


def mixed_precision_transformer(device: torch.device) -> Body:
    """bfloat16, under the autocast of the device."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True).to(device)
    data = torch.randn(8, 64, 128).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = layer(data).float().square().mean()
        loss.backward()
        optimizer.step()

    return step


class LastOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 64, batch_first=True)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.lstm(data)[0][:, -1]


def lstm(device: torch.device) -> Body:
    torch.manual_seed(0)
    return training_step(LastOutput(), (16, 20, 64), device)


# New shapes at every call: each lookup in the launch cache is a miss.


def growing(first: int) -> Callable[[], int]:
    counter = itertools.count(first)
    return lambda: next(counter)


def add_new_shapes(device: torch.device) -> Body:
    data, length = torch.randn(100_000).to(device), growing(16_384)

    def body() -> torch.Tensor:
        a = data[: length()]
        return a + a

    return body


def mm_new_shapes(device: torch.device) -> Body:
    data, weight, rows = torch.randn(20_000, 64).to(device), torch.randn(64, 64).to(device), growing(64)
    return lambda: data[: rows()] @ weight


def attention_new_shapes(device: torch.device) -> Body:
    query, cache = torch.randn(1, 4, 1, 32).to(device), torch.randn(1, 4, 20_000, 32).to(device)
    length = growing(64)

    def body() -> torch.Tensor:
        seen = cache[:, :, : length()]
        return nn.functional.scaled_dot_product_attention(query, seen, seen)

    return body


class Generator(nn.Module):
    """A small language model with a KV cache. Each token makes the cached sequences longer by one."""

    def __init__(self, width: int = 128, heads: int = 4, layers: int = 2, vocabulary: int = 256) -> None:
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocabulary, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.inputs = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor, caches: list[list[torch.Tensor]]) -> torch.Tensor:
        x = self.embed(tokens)
        for layer, (norm, project, mlp) in enumerate(zip(self.norms, self.inputs, self.mlps, strict=True)):
            q, k, v = (
                part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in project(norm(x)).chunk(3, -1)
            )
            if caches[layer]:
                k, v = (torch.cat(pair, 2) for pair in zip(caches[layer], (k, v), strict=True))
            caches[layer] = [k, v]
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=q.size(2) > 1)
            x = x + attended.transpose(1, 2).flatten(2)
            x = x + mlp(x)
        return self.head(x[:, -1:]).argmax(-1)


def generation(device: torch.device) -> Body:
    torch.manual_seed(0)
    model = Generator().to(device).eval()
    prompt, length = torch.randint(0, 256, (1, 4096)).to(device), growing(16)

    @torch.no_grad()
    def body() -> torch.Tensor:
        caches: list[list[torch.Tensor]] = [[] for _ in model.norms]
        token = prompt[:, : 25 * length()]  # each length occurs once in all calls
        for _ in range(24):
            token = model(token, caches)
        return token

    return body


CASES = [
    Case("empty, 16 elements", empty, 5000, 1.1),
    Case("add, 16 elements", add(16), 5000, 1.6),
    Case("add a scalar in place, 16", add_scalar_, 5000, 1.5),
    Case("view", view, 5000, 1.1),
    Case("(a + a).item()", item, 2000, 3.0),
    Case("add, a million elements", add(1_000_000), 200, 1.1),
    Case("softmax, 1024 x 1024", softmax, 50, 1.05),
    Case("mm, 512 x 512", mm, 50, 1.05),
    Case("training step, tiny MLP", mlp(16, 8), 200, 1.3),
    Case("training step, MLP", mlp(256, 128), 50, 1.0),
    Case("training step, convolutional net", convolutional_net, 20, 1.0),
    Case("training step, transformer layer", transformer_layer, 20, 1.0),
    Case("the same, mixed precision", mixed_precision_transformer, 20, 1.0),
    Case("training step, LSTM", lstm, 20, 1.1),
    Case("new shapes: add, 16384 and more", add_new_shapes, 200, 1.5),
    Case("new shapes: mm, 64 x 64 and more", mm_new_shapes, 100, 1.5),
    Case("new shapes: attention of one token", attention_new_shapes, 100, 1.5),
    Case("new shapes: generation, 24 tokens", generation, 2, 1.3),
]
