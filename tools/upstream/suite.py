"""Lists the test files of PyTorch that run. Paths are relative to the `test` folder of a checkout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Files, and folders of which all test files run.
GENERIC = (
    "test_accelerator",
    "test_autocast",
    "test_autograd",
    "test_binary_ufuncs",
    "test_custom_ops",
    "test_dataloader",
    "test_decomp",
    "test_dlpack",
    "test_expanded_weights",
    "test_fake_tensor",
    "test_foreach",
    "test_indexing",
    "test_linalg",
    "test_masked",
    "test_maskedtensor",
    "test_meta",
    "test_modules",
    "test_multiprocessing",
    "test_native_mha",
    "test_nestedtensor",
    "test_nn",
    "test_ops",
    "test_ops_gradients",
    "test_optim",
    "test_reductions",
    "test_scatter_gather_ops",
    "test_segment_reductions",
    "test_serialization",
    "test_shape_ops",
    "test_sort_and_select",
    "test_sparse",
    "test_sparse_csr",
    "test_spectral_ops",
    "test_tensor_creation_ops",
    "test_torch",
    "test_transformers",
    "test_type_promotion",
    "test_unary_ufuncs",
    "test_view_ops",
    "functorch",
    "profiler",
)

# Tests of torch.cuda. They run after `translate` has replaced the names.
TRANSLATED = ("test_cuda", "test_cuda_multigpu")


@dataclass(frozen=True)
class TestFile:
    name: str  # e.g. "functorch/test_vmap.py"; the first part of a test id
    translated: bool = False


def test_files(tests: Path) -> list[TestFile]:
    """The files of the suite that exist in this checkout."""
    found: list[TestFile] = []
    for entry in GENERIC:
        if (tests / entry).is_dir():
            found += [TestFile(f"{entry}/{path.name}") for path in sorted((tests / entry).glob("test_*.py"))]
        elif (tests / f"{entry}.py").is_file():
            found.append(TestFile(f"{entry}.py"))
    found += [TestFile(f"{name}.py", True) for name in TRANSLATED if (tests / f"{name}.py").is_file()]
    return found
