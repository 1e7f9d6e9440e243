"""Every PyTorch operator that takes a generator, found in the schemas, with arguments to call it."""

from collections.abc import Iterator

import torch

_VALUES = {
    "size": [64],
    "n": 64,
    "high": 100,
    "low": 3,
    "num_samples": 20,
    "training": True,
    "p": 0.5,
    "lower": 0.1,
    "upper": 0.4,
    "names": None,  # of dimensions, before torch 2.13
}
# Arguments of operators whose parameters have other names or types.
_OF_OPERATOR = {
    "aten::random_.from": {"from": 3, "to": 90},
    "aten::random_.to": {"to": 90},
    "aten::random.from": {"from": 3, "to": 90},
    "aten::random.from_out": {"from": 3, "to": 90},
    "aten::random.to": {"to": 90},
    "aten::random.to_out": {"to": 90},
    "aten::normal.float_Tensor": {"mean": 1.0},
    "aten::normal.float_Tensor_out": {"mean": 1.0},
    "aten::normal.float_float": {"mean": 1.0, "std": 2.0},
    "aten::normal.float_float_out": {"mean": 1.0, "std": 2.0},
}
_OUTPUTS = {
    ("aten::multinomial.out", "out"): torch.int64,
    ("aten::randperm.generator_out", "out"): torch.int64,
    ("aten::_fused_dropout.out", "out1"): torch.uint8,
}
_FACTORIES = ("rand", "randn", "randint", "randperm", "normal.float_float")


def operators() -> Iterator[str]:
    """Names such as ``aten::normal_``."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        packet, _, overload = name.partition(".")
        if name.startswith("aten::"):
            schema = torch._C._get_schema(packet, overload)
            if any("Generator" in str(argument.type) for argument in schema.arguments):
                yield name


def operator(name: str) -> torch._ops.OpOverload:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def call(name: str, generator: torch.Generator | None, device: str) -> list[torch.Tensor]:
    """Calls the operator on new arguments and returns its results."""
    op = operator(name)
    values = _VALUES | _OF_OPERATOR.get(name, {})
    positional, keywords = [], {"generator": generator}
    for argument in op._schema.arguments:
        kind = str(argument.type)
        if "Generator" in kind:
            continue
        if argument.name.startswith("out"):
            size = 64 if name == "aten::normal.Tensor_float_out" else 0  # the CPU does not resize this output
            value = torch.empty(size, device=device, dtype=_OUTPUTS.get((name, argument.name)))
        elif kind == "Tensor":
            value = torch.full((64,), 0.5, device=device)
            if argument.name == "count":
                value.fill_(10)
            elif argument.name == "high":
                value = torch.tensor(100)
            elif "rrelu" in name:
                value.neg_()  # only negative numbers are random
        elif argument.name in values:
            value = values[argument.name]
        elif argument.name == "device" and name.removeprefix("aten::").startswith(_FACTORIES):
            value = torch.device(device)
        elif argument.has_default_value():
            continue
        else:
            raise TypeError(f"no value for the argument {argument.name} of type {kind} of {name}")
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            positional.append(value)
    result = op(*positional, **keywords)
    return list(result) if isinstance(result, (tuple, list)) else [result]
