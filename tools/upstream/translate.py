"""Translates a CUDA test file into a test file for the device by replacing names. The result is in the build folder.

Names are replaced in code, strings and comments, because some tests run programs that are string literals. Names of
libraries and of modules that exist only for CUDA are kept.
"""

from __future__ import annotations

import re
from pathlib import Path

# Modules without an equivalent on the device, libraries and file names.
KEPT = (
    r"torch\.backends\.cuda\b",
    r"torch\.version\.cuda\b",
    r"torch\.cuda\._memory_viz\b",
    r"torch\.cuda\.(?:_HAS_PYNVML|_is_compiled)\b",
    r"torch\.cuda\.(?:comm|nccl|gds|green_contexts|jiterator|_utils|_pin_memory_utils)\b",
    r"\bcuda\.bindings\b",
    r"\bcuda\.(?:h|html|py)\b",
    r"\blibcuda\b",
)

# Replacements. A name is replaced wherever it is a whole word.
RENAMED = {
    "CUDAGraph": "{graph}",
    "PYTORCH_CUDA_ALLOC_CONF": "{upper}_ALLOC_CONF",
    "CUDA_LAUNCH_BLOCKING": "{upper}_LAUNCH_BLOCKING",
    "cuda_stream": "native_handle",
    "cuda_event": "event_id",
    "is_cuda": "is_{name}",
    "cuda": "{name}",
}

# The same for files of torch.distributed: the deprecated autocast, of CUDA only.
KEPT_DISTRIBUTED = (r"torch\.cuda\.amp\b",)

# Replacements for files of torch.distributed. The device's backend works over Gloo, so it is available if Gloo is.
RENAMED_BACKEND = {
    "NCCL": "{upper}",
    "nccl": "{backend}",
    "is_nccl_available": "is_gloo_available",
    "requires_nccl": "requires_gloo",
}


def translate(source: str, name: str, graph: str, backend: str = "") -> str:
    """The source with the names of CUDA replaced by those of the device `name`, whose graph class is `graph`.

    With `backend`, its name also replaces that of NCCL.
    """
    renamed = {old: new.format(name=name, upper=name.upper(), graph=graph) for old, new in RENAMED.items()}
    kept = KEPT
    if backend:
        kept += KEPT_DISTRIBUTED
        renamed |= {
            old: new.format(backend=backend, upper=backend.upper()) for old, new in RENAMED_BACKEND.items()
        }
    pattern = re.compile("|".join([*kept, *(rf"\b{old}\b" for old in renamed)]))
    return pattern.sub(lambda found: renamed.get(found.group(), found.group()), source)


def translate_for_device(source: str, distributed: bool) -> str:
    import torch

    name = torch._C._get_privateuse1_backend_name()
    module = torch.get_device_module(name)
    graph = next((member for member in dir(module) if member.endswith("Graph")), "Graph")
    backend = torch.distributed.get_default_backend_for_device(name) if distributed else ""
    return translate(source, name, graph, backend)


def translate_file(source: Path, target: Path, distributed: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(translate_for_device(source.read_text(), distributed))
