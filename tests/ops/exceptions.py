"""Operators that are compared only in part or not at all, with the reasons."""

from torch_openreg._torch_versions import RELEASE

# Random numbers come from the device's generator, so only shapes and dtypes are compared; tests/test_random.py tests
# the numbers. The factories at the end return uninitialized memory.
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "normal_in_place",
    "normal_number_mean", "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform",
    "nn_functional_alpha_dropout", "nn_functional_dropout", "nn_functional_dropout2d", "nn_functional_dropout3d",
    "nn_functional_feature_alpha_dropout_with_train", "nn_functional_fractional_max_pool2d",
    "nn_functional_fractional_max_pool3d", "nn_functional_multi_head_attention_forward", "nn_functional_rrelu",
    "nn_functional_scaled_dot_product_attention", "pca_lowrank", "svd_lowrank",
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip

# Not bitwise equal to the CPU: operator -> reason. All others are compared with tolerance 0.
ROUNDED = {
    **dict.fromkeys(["masked_prod", "prod"], "another order of multiplication"),
    **dict.fromkeys(
        ["polygamma_polygamma_n_0", "special_polygamma_special_polygamma_n_0"],
        "float16 and bfloat16: the scalar and the vector code of the kernel round differently",
    ),
}
if RELEASE >= (2, 13):
    ROUNDED |= dict.fromkeys(
        ["nn_functional_linear_cross_entropy_chunked", "nn_functional_linear_cross_entropy_chunked_none"],
        "float16: another order of the backward pass",
    )

# Prefixes of operators that call LAPACK, whose rounding depends on the alignment of its workspace.
LAPACK = (
    "cholesky",
    "geqrf",
    "linalg_",
    "logdet",
    "lu",
    "ormqr",
    "pinverse",
    "qr",
    "svd",
    "triangular_solve",
)

# The same for modules.
ROUNDED_MODULES = dict.fromkeys(
    ["nn.GRU", "nn.GRUCell", "nn.LSTM", "nn.LSTMCell", "nn.RNN"], "a device kernel, or another decomposition"
)

# The CPU rejects all samples of the database: nothing is compared.
REJECTED_BY_THE_CPU = {
    "jiterator_2inputs_2outputs",
    "jiterator_4inputs_with_extra_args",
    "jiterator_binary",
    "jiterator_binary_return_by_ref",
    "jiterator_unary",
}

# Not implemented: operator -> reason. An operator that works must be removed.
MISSING: dict[str, str] = {}

# Dtypes that CUDA supports in this version of torch, and other devices do not: prefix of an operator -> dtypes.
# Functions outside of the kernels check the type of the device.
ONLY_ON_CUDA = {
    **({"fft_": ("torch.bfloat16",), "stft": ("torch.bfloat16",)} if RELEASE >= (2, 14) else {}),
    **({"sparse_sampled_addmm": ("torch.float16", "torch.bfloat16")} if RELEASE >= (2, 14) else {}),
    # Samples that divide by zero: undefined on CUDA, an error on the CPU and here.
    **({"__rmod__": ("torch.int64", "torch.int32")} if RELEASE < (2, 13) else {}),
}

# Operators that only exist for CUDA's kernels.
ELSEWHERE = {"torch_ops_aten__flash_attention_forward", "torch_ops_aten__efficient_attention_forward"}

# Rejected by the kernel, not at the call.
REFUSED_LATE = {
    "_segment_reduce_lengths": "reads the lengths first",
    "_segment_reduce_offsets": "reads the offsets first",
    "max_pool2d_with_indices_backward": "backward operators are not checked: their forwards were",
    "normal": "reads the standard deviations first",
    "randint_like": "rejects the bounds, not the dtype",
}

# Cannot be captured, as on CUDA: operator -> the operator that runs synchronously, or another reason. An operator
# that can be captured must be removed.
NOT_CAPTURED = {
    **dict.fromkeys(
        [
            *(
                "allclose",
                "linspace_tensor_overload",
                "logspace_tensor_overload",
                "nn_functional_gaussian_nll_loss",
            ),
            *("linalg_cholesky", "linalg_inv", "linalg_ldl_factor", "linalg_lu_factor", "linalg_solve"),
            *("linalg_tensorinv", "linalg_tensorsolve"),
        ],
        "_local_scalar_dense",
    ),
    **dict.fromkeys(["argwhere", "nonzero"], "nonzero"),
    **dict.fromkeys(["masked_select", *(["combinations"] if RELEASE < (2, 14) else [])], "masked_select"),
    **dict.fromkeys(["corrcoef", "cov", "equal"], "equal"),
    **dict.fromkeys(["linalg_lstsq", "linalg_lstsq_grad_oriented"], "linalg_lstsq.out"),
    **dict.fromkeys(["sparse_mm_reduce", "sparse_sampled_addmm"], "clone"),
    **dict.fromkeys(["_segment_reduce_lengths", "_segment_reduce_offsets"], "segment_reduce"),
    "nn_functional_ctc_loss": "_ctc_loss",
    "to_sparse": "_to_sparse",
    "unique": "_unique2",
    "unique_consecutive": "unique_consecutive",
    **dict.fromkeys(["__getitem__", "masked_cumprod", "masked_cumsum"], "a copy between host and device"),
    **dict.fromkeys(["item", "nn_functional_feature_alpha_dropout_without_train"], "seeding a generator"),
}

# Wrong arguments crash the process on the CPU: PyTorch's kernels access memory out of bounds.
CRASH_THE_CPU = {
    "lu_unpack",
    "linalg_ldl_solve",
    "linalg_lstsq",
    "linalg_lstsq_grad_oriented",
    "native_batch_norm",
    "nn_functional_embedding_bag",
    "_batch_norm_with_update",
    "_native_batch_norm_legit",
    "_segment_reduce_lengths",
    "_segment_reduce_offsets",
    "torch_ops_aten__scaled_dot_product_flash_attention_for_cpu",
}

# Wrong arguments that the device and the CPU do not reject in the same way.
OTHERWISE_REFUSED = {
    **dict.fromkeys(
        ["_softmax_backward_data", "max_pool2d_with_indices_backward"],
        "rejected late: backward operators are not checked, since their forwards were",
    ),
    **dict.fromkeys(
        ["nanmean", "nansum", "nn_functional_multi_margin_loss", "nn_functional_multilabel_margin_loss"],
        "dtypes that CUDA supports and the CPU does not",
    ),
    "cat": "the output is also an empty input: the result is correct",
    "nn_functional_linear_cross_entropy_chunked": "two dtypes, which CUDA rejects and the CPU accepts",
    "nn_functional_one_hot": "the CPU reads the data first; other devices do not",
    "nn_functional_scaled_dot_product_attention": "negative dropout, which the CPU reports as positive",
    "resize_": "negative size, which the CPU reports as too large",
    "tensor_split": "takes its indices from the host only, as on CUDA",
    **(
        {"torch__scaled_mm_v2": "has no CPU kernel; both raise NotImplementedError"}
        if RELEASE < (2, 12)
        else {}
    ),
}

# Results whose strides differ from the CPU's: their Meta kernels infer CUDA's strides.
OTHER_STRIDES = {
    "fft_hfft2",
    "fft_rfft2",
    "fft_rfftn",
    "linalg_eig",
    "linalg_lu_solve",
    "nn_functional_pad_replicate_negative",
}

# Not compared in tests/ops/test_variants.py, with the reasons.
OTHER_VARIANTS = {
    "torch_ops_aten__scaled_dot_product_flash_attention_for_cpu": (
        "the CPU kernel reads other memory if the last dimension is not contiguous"
    ),
    "addr": "the CPU rejects a 0-dim tensor in place, and accepts it as an output",
    "normal": "the CPU rejects an empty output",
    "normal_number_mean": "the CPU rejects an empty output",
    "tensor_split": "takes its indices from the host only, as on CUDA",
    "to": "may return a tensor on another device",
}
