"""Trains a small residual network to classify shapes in noisy images.

python examples/image_classifier.py --device openreg --amp --checkpoint shapes.pt --profile trace.json
"""

import torch
from torch import nn
from trainer import Options, parse, run

SIZE, BATCH = 16, 32
SHAPES = ["square", "frame", "cross", "diagonal"]


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.body(x))


def draw(shape: int, side: int) -> torch.Tensor:
    """Draws a shape in a square image."""
    picture = torch.zeros(side, side)
    if shape == 0:
        picture[:] = 1
    elif shape == 1:
        picture[[0, -1], :] = picture[:, [0, -1]] = 1
    elif shape == 2:
        picture[side // 2, :] = picture[:, side // 2] = 1
    else:
        picture.fill_diagonal_(1)
    return picture


class Shapes:
    learning_rate = 3e-3

    def __init__(self, options: Options) -> None:
        self.model = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), Residual(12), nn.MaxPool2d(2), Residual(12),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(options.dropout), nn.Linear(48, len(SHAPES)),
        )  # fmt: skip

    def batch(self, step: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        labels = torch.randint(len(SHAPES), (BATCH,), generator=generator)
        pictures = torch.randn(BATCH, 1, SIZE, SIZE, generator=generator) * 0.3
        sides = torch.randint(5, 10, (BATCH,), generator=generator)
        places = torch.randint(0, SIZE - 9, (BATCH, 2), generator=generator)
        for i, (label, side, (y, x)) in enumerate(
            zip(labels.tolist(), sides.tolist(), places.tolist(), strict=True)
        ):
            pictures[i, 0, y : y + side, x : x + side] += draw(label, side)
        return pictures, labels

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.model(inputs), targets)


def main() -> None:
    options = parse(__doc__.splitlines()[0])
    run(Shapes, options)


if __name__ == "__main__":
    main()
