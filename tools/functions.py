"""Writes docs/functions.md: the support status of every public name of torch.accelerator and torch.cuda.

A name is present (the same name in torch.openreg), elsewhere (another name provides it) or absent, with a
reason. The tool finds the present names and the tests that use them; only the reasons are written by hand.

    python tools/functions.py            writes the page
    python tools/functions.py --check    reports errors in it
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

from torch_openreg._torch_versions import RELEASE, release

OURS = "torch.openreg"

# The submodules of torch.cuda that are listed.
MODULES = (
    *("memory", "random", "graphs", "amp", "profiler", "nvtx", "comm", "nccl", "sparse", "jiterator"),
    *("tunable", "gds", "green_contexts"),
)

# Another name provides it. A test checks that the other name exists.
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

_SENSORS = "reads a sensor of NVIDIA or AMD boards; a simulated device has none"
_LIBRARY = "refers to a CUDA library; the kernels of this device run on the host"
_CUDART = "exposes the CUDA runtime; the runtime of this device is `include/openreg/openreg.h`"
_COMPILED = "lists architectures of compiled CUDA code; there is none"
_PLUGGABLE = (
    "replaces CUDA's allocator with functions that take CUDA streams; this device has only its own allocator"
)

# Names that are listed although older supported versions of torch do not have them.
NEW = {
    "torch.accelerator.Graph": "2.12",
    "current_solver_handle": "2.13",
    **dict.fromkeys(("export_dot", "export_graph_data", "graph_annotations"), "2.14"),
    **dict.fromkeys(
        (
            *("graphs.register_graph_capture_end_hook", "graphs.register_graph_capture_start_hook"),
            *("graphs.register_graph_replay_end_hook", "graphs.register_graph_replay_start_hook"),
            *("graphs.register_graph_destroy_hook", "graphs.register_graph_instantiate_hook"),
        ),
        "2.14",
    ),
}

# Absent, with the reason. "module.*" stands for all names of a module.
ABSENT = {
    **dict.fromkeys(
        ("export_dot", "export_graph_data", "graph_annotations"),
        "exports or annotates a CUDA graph; `debug_dump` of a graph writes its nodes",
    ),
    **dict.fromkeys(
        (name for name in NEW if name.startswith("graphs.register_")),
        "not implemented yet: hooks of the class CUDAGraph",
    ),
    **dict.fromkeys(("temperature", "power_draw", "clock_rate", "utilization", "memory_usage"), _SENSORS),
    "list_gpu_processes": "queries NVIDIA's management library; a simulated device has no list of processes",
    **dict.fromkeys(("current_blas_handle", "current_solver_handle", "has_magma"), _LIBRARY),
    **dict.fromkeys(("cudart", "cudaStatus", "check_error"), _CUDART),
    "get_gencode_flags": _COMPILED,
    "has_half": "always true in PyTorch; `torch.accelerator.get_device_capability` lists the supported dtypes",
    "DeferredCudaCallError": "for calls that are deferred until CUDA is initialized; this device defers no calls",
    **dict.fromkeys(("CUDAPluggableAllocator", "change_current_allocator"), _PLUGGABLE),
    **dict.fromkeys(
        ("GreenContext", "green_contexts.*"),
        "partitions the multiprocessors of a GPU; a simulated device has none",
    ),
    "jiterator": "compiles CUDA C++ at run time",
    "jiterator.*": "compiles CUDA C++ at run time",
    "nccl": "NVIDIA's communication library; use `torch.distributed`",
    "nccl.*": "NVIDIA's communication library; use `torch.distributed`",
    "sparse": "an empty module in PyTorch",
    "tunable": "selects kernels of NVIDIA's and AMD's matrix libraries",
    "tunable.*": "selects kernels of NVIDIA's and AMD's matrix libraries",
    "gds.*": "reads files into GPU memory with NVIDIA's driver",
    "amp.amp_definitely_not_available": "reports whether CUDA is unavailable",
}

# Planned names, with the text of their rows. Empty in a release.
COMING = {}

HEAD = """\
# Functions of torch.accelerator and torch.cuda

Made by `tools/functions.py` with torch {version}; a test checks that it is up to date. Do not edit.

Every public name of these modules is **present** (the same name in `torch.openreg`, listed with tests that use it),
**elsewhere** (another name provides it) or **absent** (listed with the reason). {counts}.
"""


class Row(NamedTuple):
    name: str  # "synchronize", "amp.GradScaler"
    state: str  # present, elsewhere, absent, coming, or unknown, which is an error
    text: str


def exists(path: str) -> bool:
    """Whether a dotted path exists. Does not import, because that could create a module twice."""
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
    """The first two test files that use the name of the module, or of one of its submodules."""
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
    """The rows of each module. Names that are also in torch.cuda are not repeated for its submodules."""
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


def is_newer(version: str | None) -> bool:
    """Whether this torch is older than the version."""
    return version is not None and release(version) > RELEASE


def problems() -> list[str]:
    """Errors in the names, then in the reasons."""
    errors = []
    seen = set()
    for module, rows in sections():
        for one in rows:
            seen.add(one.name)
            if one.state == "unknown":
                errors.append(f"{module} has {one.name}, but {OURS} has not, and no reason is listed")
            elif one.state == "present" and not one.text:
                errors.append(f"{one.name} is present, but no test uses it")
    for name in [*ABSENT, *ELSEWHERE]:
        if "*" not in name and exists(f"{OURS}.{name}"):
            errors.append(f"{name} is listed as not present, but {OURS} has it")
        if "*" not in name and name not in seen and not is_newer(NEW.get(name)):
            errors.append(f"{name} is listed, but torch.cuda has no such name")
    for name, path in ELSEWHERE.items():
        if not exists(path) and not is_newer(NEW.get(path)):
            errors.append(f"{path} is listed as the replacement of {name}, but does not exist")
    return errors


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
