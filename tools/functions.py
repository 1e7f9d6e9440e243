"""Writes docs/functions.md: every public name of torch.accelerator and torch.cuda, and what this device makes of it.

A name is present (under the same name in torch.openreg), elsewhere (another name does it), or absent for a
reason. What is present is found by looking, and so is the test that uses it; only reasons are written here.

    python tools/functions.py            writes the page
    python tools/functions.py --check    says what is wrong with it
"""

import functools
import importlib
import operator
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.distributed
import torch.profiler
from page import ROOT, TORCH, Page

OURS = "torch.openreg"

# Which modules of torch.cuda are looked at, beside torch.cuda itself.
MODULES = (
    *("memory", "random", "graphs", "amp", "profiler", "nvtx", "comm", "nccl", "sparse", "jiterator"),
    *("tunable", "gds", "green_contexts"),
)

# Another name does it. A test looks whether that name exists.
ELSEWHERE = {
    "CudaError": "torch.AcceleratorError",
    "CUDAGraph": "torch.accelerator.Graph",
    "streams": "torch.openreg.Stream",
    "amp.autocast": "torch.autocast",
    "amp.custom_fwd": "torch.amp.custom_fwd",
    "amp.custom_bwd": "torch.amp.custom_bwd",
    "amp.GradScaler": "torch.amp.GradScaler",
    "profiler.profile": "torch.profiler.profile",
    "profiler.start": "torch.profiler.profile",
    "profiler.stop": "torch.profiler.profile",
    "comm.broadcast": "torch.distributed.broadcast",
    "comm.broadcast_coalesced": "torch.distributed.broadcast",
    "comm.reduce_add": "torch.distributed.reduce",
    "comm.reduce_add_coalesced": "torch.distributed.reduce",
    "comm.scatter": "torch.distributed.scatter",
    "comm.gather": "torch.distributed.gather",
    "reset_max_memory_allocated": "torch.openreg.reset_peak_memory_stats",
    "reset_max_memory_cached": "torch.openreg.reset_peak_memory_stats",
    "memory_cached": "torch.openreg.memory_reserved",
    "max_memory_cached": "torch.openreg.max_memory_reserved",
    "get_arch_list": "torch.openreg.get_device_capability",
    "nvtx": "torch.openreg.profiler",
    **{
        f"nvtx.{name}": f"torch.openreg.profiler.{name}"
        for name in ("range", "range_push", "range_pop", "range_start", "range_end", "mark")
    },
}

_SENSORS = "a sensor of NVIDIA's and AMD's boards; there is none here"
_LIBRARY = "a handle of a CUDA library; kernels are the host's"
_CUDART = "gives the CUDA runtime itself; ours is `include/openreg/openreg.h`"
_STORAGE = "a typed storage, which PyTorch has retired; `torch.UntypedStorage(n, device=...)` works"
_COMPILED = "names architectures of compiled CUDA code; there is none"
_PLUGGABLE = (
    "replaces CUDA's allocator by functions over CUDA streams; the pool is this device's only allocator"
)

# Absent, and why. "module.*" is all of a module.
ABSENT = {
    **{
        f"{dtype}Storage": _STORAGE
        for dtype in (
            *("BFloat16", "Bool", "Byte", "Char", "ComplexDouble", "ComplexFloat", "Double", "Float", "Half"),
            *("Int", "Long", "Short"),
        )
    },
    **dict.fromkeys(("temperature", "power_draw", "clock_rate", "utilization", "memory_usage"), _SENSORS),
    "list_gpu_processes": "asks NVIDIA's management library; nobody keeps a list of the processes that simulate",
    **dict.fromkeys(("current_blas_handle", "current_solver_handle", "has_magma"), _LIBRARY),
    **dict.fromkeys(("cudart", "cudaStatus", "check_error"), _CUDART),
    "get_gencode_flags": _COMPILED,
    "has_half": "a leftover in PyTorch, always true; `torch.accelerator.get_device_capability` lists dtypes",
    "DeferredCudaCallError": "for calls that wait until CUDA is initialized; here nothing waits",
    **dict.fromkeys(("CUDAPluggableAllocator", "change_current_allocator"), _PLUGGABLE),
    **dict.fromkeys(
        ("GreenContext", "green_contexts.*"), "a part of a chip's processors; a simulated one has none"
    ),
    "jiterator": "compiles CUDA C++ at run time",
    "jiterator.*": "compiles CUDA C++ at run time",
    "nccl": "NVIDIA's communication library; `torch.distributed` is the interface to ours",
    "nccl.*": "NVIDIA's communication library; `torch.distributed` is the interface to ours",
    "sparse": "an empty module in PyTorch too",
    "tunable": "chooses among kernels of NVIDIA's and AMD's matrix libraries",
    "tunable.*": "chooses among kernels of NVIDIA's and AMD's matrix libraries",
    "gds.*": "files read into GPU memory by NVIDIA's driver",
    "amp.amp_definitely_not_available": "asks whether CUDA is missing",
}

# Other work brings these; a row says so until it does. Nothing here may stay for a release.
COMING = {}

HEAD = """\
# Functions of torch.accelerator and torch.cuda

Made by `tools/functions.py` with torch {version}; a test keeps it true. Do not edit.

Every public name of these modules is one of: **present**, in `torch.openreg` under the same name and used in the tests
that stand beside it; **elsewhere**, because another name does it; **absent**, for the reason given. {counts}.
"""


class Row(NamedTuple):
    name: str  # "synchronize", "amp.GradScaler"
    state: str  # present, elsewhere, absent, coming, or unknown, which is an error
    text: str


def exists(path: str) -> bool:
    """Whether a dotted path names something. Nothing is imported: that could make a module twice."""
    _, *names = path.split(".")
    try:
        functools.reduce(getattr, names, torch)
    except AttributeError:
        return False
    return True


@functools.cache
def sources() -> dict[str, str]:
    return {
        str(path.relative_to(ROOT / "tests")): path.read_text()
        for path in sorted((ROOT / "tests").rglob("*.py"))
    }


def tests_of(owner: str, name: str) -> str:
    """Two of the test files that use the name of the module, or of a module in it."""
    use = re.compile(rf"\b{owner.rpartition('.')[2]}(\.\w+)?\.{name}\b")
    files = [file for file, text in sources().items() if use.search(text)]
    return ", ".join(f"`tests/{file}`" for file in files[:2])


def public(module: str) -> list[str]:
    return sorted(getattr(importlib.import_module(module), "__all__", []), key=str.casefold)


def row(name: str) -> Row:
    reason = ABSENT.get(name) or (ABSENT.get(f"{name.partition('.')[0]}.*") if "." in name else None)
    if exists(f"{OURS}.{name}"):
        return Row(name, "present", tests_of(OURS, name))
    if name in ELSEWHERE:
        return Row(name, "elsewhere", f"`{ELSEWHERE[name]}`")
    if reason:
        return Row(name, "absent", reason)
    return Row(name, "coming", COMING[name]) if name in COMING else Row(name, "unknown", "")


def sections() -> Iterator[tuple[str, list[Row]]]:
    """The rows of each module. A name that torch.cuda has itself is not repeated for its submodule."""
    accelerator = "torch.accelerator"
    rows = []
    for name in public(accelerator):
        tests = tests_of(accelerator, name)
        coming = COMING.get(f"accelerator.{name}")
        rows.append(Row(name, "coming", coming) if coming and not tests else Row(name, "present", tests))
    yield accelerator, rows
    top = public("torch.cuda")
    yield "torch.cuda", [row(name) for name in top]
    for module in MODULES:
        names = [name for name in public(f"torch.cuda.{module}") if name not in top]
        if names:
            yield f"torch.cuda.{module}", [row(f"{module}.{name}") for name in names]


def problems() -> list[str]:
    """What is wrong: with the names, then with the reasons."""
    wrong = []
    seen = set()
    for module, rows in sections():
        for one in rows:
            seen.add(one.name)
            if one.state == "unknown":
                wrong.append(f"{module} has {one.name}, and {OURS} has neither it nor a reason")
            elif one.state == "present" and not one.text:
                wrong.append(f"{one.name} is present, and no test uses it")
    for name in [*ABSENT, *ELSEWHERE]:
        if "*" not in name and exists(f"{OURS}.{name}"):
            wrong.append(f"{name} is listed as not present, and {OURS} has it")
        if "*" not in name and name not in seen:
            wrong.append(f"{name} is listed, and torch.cuda has no such name")
    for name, path in ELSEWHERE.items():
        if not exists(path):
            wrong.append(f"{path} stands for {name}, and does not exist")
    return wrong


def page() -> str:
    parts = dict(sections())
    states = [one.state for rows in parts.values() for one in rows]
    order = ("present", "elsewhere", "absent", "coming")
    counts = ", ".join(f"{operator.countOf(states, state)} are {state}" for state in order if state in states)
    text = HEAD.format(version=TORCH, counts=counts)
    for module, rows in parts.items():
        text += f"\n## {module}\n\n| name | here | tests, other name or reason |\n| --- | --- | --- |\n"
        text += "".join(f"| `{one.name}` | {one.state} | {one.text} |\n" for one in rows)
    return text


PAGE = Page("functions", page, problems)

if __name__ == "__main__":
    sys.exit(PAGE.main(__doc__))
