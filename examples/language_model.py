"""Trains a small transformer to continue periodic sequences.

python examples/language_model.py --device openreg --amp float16 --checkpoint model.pt --resume
"""

import torch
from torch import nn
from trainer import Options, parse, run

WORDS, LENGTH, BATCH, WIDTH, HEADS, LAYERS = 32, 48, 16, 64, 4, 2


class Block(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.to_heads, self.from_heads = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(dropout)
        )

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.to_heads(x).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, dropout_p=self.dropout if self.training else 0.0
        )
        return self.from_heads(mixed.transpose(1, 2).flatten(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.before_attention(x))
        return x + self.mlp(self.before_mlp(x))


class LanguageModel(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block(dropout) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight  # tied weights, on every device
        nn.init.normal_(self.words.weight, std=0.1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.words(tokens) + self.places(places))))


class Repetition:
    learning_rate = 3e-3

    def __init__(self, options: Options) -> None:
        self.model = LanguageModel(options.dropout)

    def batch(self, step: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        period = 6
        phrases = torch.randint(WORDS, (BATCH, period), generator=generator)
        text = phrases.repeat(1, LENGTH // period + 1)[:, : LENGTH + 1]
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.model(inputs).flatten(0, 1), targets.flatten())


def main() -> None:
    options = parse(__doc__.splitlines()[0])
    run(Repetition, options)


if __name__ == "__main__":
    main()
