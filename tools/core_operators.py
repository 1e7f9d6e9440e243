"""Writes docs/core_operators.md: the operators that a few models come down to.

Each model is traced forward and backward on the device with PyTorch's core ATen decompositions, and the
graphs are run. What is left in them is what a device needs a kernel for, beside the minimum of
csrc/operators/required/factory_and_view_ops.cpp, for such models to be compiled.

    python tools/core_operators.py            writes the page
    python tools/core_operators.py --check    says whether it is up to date
"""

import sys
from collections.abc import Callable

import torch
from page import TORCH, Page
from torch import nn

DEVICE = torch.accelerator.current_accelerator()

HEAD = """\
# The operators that models come down to

Made by `tools/core_operators.py` with torch {version}; a test keeps it true. Do not edit.

PyTorch has thousands of operators. A model that is compiled needs few of them: decompositions write the
others as these. The {models} models below, forward and backward, need {count} after PyTorch's core
decompositions. A backend that has these and the minimum (`csrc/operators/required/factory_and_view_ops.cpp`) can run what a
compiler makes of such models. The table was made by running them.

| operator | {columns} |
| --- | {rules} |
"""


class Classifier(nn.Module):
    """Convolutions, both kinds of normalization, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(8, 4),
        )  # fmt: skip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images).square().mean()


class LanguageModel(nn.Module):
    """Embedding, attention, dropout, cross entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True)
        self.head = nn.Linear(16, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores = self.head(self.block(self.embedding(tokens)))
        return nn.functional.cross_entropy(scores.flatten(0, 1), tokens.flatten())


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 8, batch_first=True)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        return self.lstm(series)[0].square().mean()


def models() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    mlp = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0), nn.Softplus())
    return {
        "MLP": (mlp, torch.randn(5, 4)),
        "CNN": (Classifier(), torch.randn(2, 3, 16, 16)),
        "transformer": (LanguageModel(), torch.randint(0, 50, (2, 7))),
        "LSTM": (Recurrent(), torch.randn(2, 3, 4)),
    }


def operators_of(model: nn.Module, data: torch.Tensor) -> set[str]:
    """What is left of the model's forward and backward, which are run."""
    from functorch.compile import aot_module, make_boxed_func
    from torch._decomp import core_aten_decompositions

    found: set[str] = set()

    def collect(graph: torch.fx.GraphModule, _: object) -> Callable:
        targets = (node.target for node in graph.graph.nodes if node.op == "call_function")
        found.update(str(t) for t in targets if isinstance(t, torch._ops.OpOverload))
        return make_boxed_func(graph)

    traced = aot_module(
        model.to(DEVICE), fw_compiler=collect, bw_compiler=collect, decompositions=core_aten_decompositions()
    )
    traced(data.to(DEVICE)).sum().backward()
    return found


def page() -> str:
    torch.manual_seed(0)
    needed = {name: operators_of(*example) for name, example in models().items()}
    operators = sorted(set().union(*needed.values()))
    head = HEAD.format(
        version=TORCH,
        models=len(needed),
        count=len(operators),
        columns=" | ".join(needed),
        rules=" | ".join(":-:" for _ in needed),
    )
    rows = (
        f"| `{operator}` | {' | '.join('x' if operator in uses else '' for uses in needed.values())} |\n"
        for operator in operators
    )
    return head + "".join(rows)


PAGE = Page("core_operators", page)

if __name__ == "__main__":
    sys.exit(PAGE.main(__doc__))
