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

# Tests of torch.compile, which compile C++ for seconds each. The files of Inductor have a class of tests for accelerators.
COMPILER = (
    "inductor/test_torchinductor",
    "inductor/test_torchinductor_dynamic_shapes",
    "inductor/test_compiled_optimizers",
    "inductor/test_control_flow",
    "inductor/test_indexing",
    "inductor/test_inductor_freezing",
    "inductor/test_inplacing_pass",
    "inductor/test_unbacked_symints",
    "dynamo/test_activation_checkpointing",
    "dynamo/test_autograd_function",
    "dynamo/test_backends",
    "dynamo/test_ctx_manager",
    "dynamo/test_dynamo_ops",
    "dynamo/test_higher_order_ops",
    "dynamo/test_misc",
    "dynamo/test_modules",
    "dynamo/test_unspec",
)

# Tests of torch.distributed, which take hours. Most start four processes for each test.
DISTRIBUTED = (
    "distributed/test_backends",
    "distributed/test_c10d_common",
    "distributed/test_c10d_functional_native",
    "distributed/test_c10d_logger",
    "distributed/test_c10d_object_collectives",
    "distributed/test_c10d_pypg",
    "distributed/test_collective_utils",
    "distributed/test_composability",
    "distributed/test_control_collectives",
    "distributed/test_device_mesh",
    "distributed/test_dist2",
    "distributed/test_fake_backend_new_group",
    "distributed/test_fake_pg",
    "distributed/test_functional_api",
    "distributed/test_functional_differentials",
    "distributed/test_local_tensor",
    "distributed/test_multi_threaded_pg",
    "distributed/test_pg_wrapper",
    "distributed/test_serialization",
    "distributed/_composable",
    "distributed/_composable/fsdp",
    "distributed/_composable/test_composability",
    "distributed/_shard",
    "distributed/_shard/sharded_optim",
    "distributed/_shard/sharded_tensor",
    "distributed/_shard/sharded_tensor/ops",
    "distributed/_shard/sharding_plan",
    "distributed/_shard/sharding_spec",
    "distributed/_tools",
    "distributed/algorithms",
    "distributed/algorithms/ddp_comm_hooks",
    "distributed/algorithms/quantization",
    "distributed/checkpoint",
    "distributed/checkpoint/_experimental",
    "distributed/checkpoint/e2e",
    "distributed/checkpoint/fsdp",
    "distributed/fsdp",
    "distributed/optim",
    "distributed/pipelining",
    "distributed/tensor",
    "distributed/tensor/debug",
    "distributed/tensor/experimental",
    "distributed/tensor/parallel",
)

# Files of these folders about compiled code, other devices, or formats of files.
LEFT_OUT = frozenset(
    {
        "distributed/_composable/fsdp/test_fully_shard_compile.py",
        "distributed/_composable/test_replicate_with_compiler.py",
        "distributed/_tools/test_runtime_estimator.py",
        "distributed/_tools/test_sac_estimator.py",
        "distributed/_tools/test_sac_ilp.py",
        "distributed/checkpoint/test_consolidate_hf_safetensors.py",
        "distributed/checkpoint/test_hf_safetensor_e2e.py",
        "distributed/checkpoint/test_hf_storage.py",
        "distributed/checkpoint/test_quantized_hf_storage.py",
        "distributed/tensor/parallel/test_micro_pipeline_tp.py",
        "distributed/tensor/test_compile_on_one_rank.py",
        "distributed/tensor/test_dtensor_compile.py",
        "distributed/tensor/test_dtensor_dispatch_overhead.py",
        "distributed/tensor/test_xla_integration.py",
    }
)

# Tests of torch.cuda. They run after `translate` has replaced the names.
TRANSLATED = ("test_cuda", "test_cuda_multigpu")


# Tests of torch.distributed that choose the device and the backend by the names of CUDA and NCCL.
TRANSLATED_DISTRIBUTED = (
    "distributed/_composable/test_replicate_with_fsdp",
    "distributed/algorithms/quantization/test_quantization",
    "distributed/algorithms/test_join",
    "distributed/test_c10d_ops_nccl",
    "distributed/test_composability",
    "distributed/test_distributed_spawn",
    "distributed/test_functional_api",
)


@dataclass(frozen=True)
class TestFile:
    name: str  # e.g. "functorch/test_vmap.py"; the first part of a test id
    translated: bool = False

    @property
    def distributed(self) -> bool:
        return self.name.startswith("distributed/")

    @property
    def compiler(self) -> bool:
        return self.name.startswith(("inductor/", "dynamo/"))


def _expand(tests: Path, entries: tuple[str, ...]) -> list[TestFile]:
    found: list[str] = []
    for entry in entries:
        if (tests / entry).is_dir():
            found += [f"{entry}/{path.name}" for path in sorted((tests / entry).glob("test_*.py"))]
        elif (tests / f"{entry}.py").is_file():
            found.append(f"{entry}.py")
    return [TestFile(name) for name in found if name not in LEFT_OUT]


def test_files(tests: Path) -> list[TestFile]:
    """The files of the suite that exist in this checkout, without those of the compiler and the distributed ones."""
    translated = [TestFile(f"{name}.py", True) for name in TRANSLATED if (tests / f"{name}.py").is_file()]
    return _expand(tests, GENERIC) + translated


def distributed_files(tests: Path) -> list[TestFile]:
    translated = {file.name for file in _expand(tests, TRANSLATED_DISTRIBUTED)}
    files = {file.name for file in _expand(tests, DISTRIBUTED)} | translated
    return [TestFile(name, name in translated) for name in sorted(files)]


def compiler_files(tests: Path) -> list[TestFile]:
    return _expand(tests, COMPILER)


def all_files(tests: Path) -> list[TestFile]:
    return test_files(tests) + compiler_files(tests) + distributed_files(tests)


def choose(tests: Path, names: list[str]) -> list[TestFile]:
    """The files with these names; the name of a folder means all files of the suite in it. No names: `test_files`."""
    if not names:
        return test_files(tests)
    suite = all_files(tests)
    chosen: dict[str, TestFile] = {}
    for name in names:
        files = [file for file in suite if file.name == name or file.name.startswith(f"{name.rstrip('/')}/")]
        chosen.update((file.name, file) for file in files or [TestFile(name)])
    return list(chosen.values())
