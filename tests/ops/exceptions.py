"""Operators that are compared in part, or not, each with the reason."""

# Numbers come from the device's own generator, so only shapes and dtypes can agree; tests/test_random.py tests the
# numbers. The rest has nothing to compare: memory that nobody has written.
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "normal_in_place",
    "normal_number_mean", "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform",
    "nn_functional_alpha_dropout", "nn_functional_dropout", "nn_functional_dropout2d", "nn_functional_dropout3d",
    "nn_functional_feature_alpha_dropout_with_train", "nn_functional_fractional_max_pool2d",
    "nn_functional_fractional_max_pool3d", "nn_functional_multi_head_attention_forward", "nn_functional_rrelu",
    "nn_functional_scaled_dot_product_attention", "pca_lowrank", "svd_lowrank",
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip

# Not available yet: operator -> why. One that works must be taken out.
MISSING: dict[str, str] = {}

# Operators that exist for CUDA's own kernels and have no meaning elsewhere.
ELSEWHERE = {"torch_ops_aten__flash_attention_forward", "torch_ops_aten__efficient_attention_forward"}

# Refused by the kernel when it runs, and not at the call.
REFUSED_LATE = {
    "_segment_reduce_lengths": "looks at the lengths first",
    "_segment_reduce_offsets": "looks at the offsets first",
    "max_pool2d_with_indices_backward": "backwards are not asked: their forwards were",
    "normal": "looks at the deviations first",
    "randint_like": "the bounds are wrong, not the dtype",
}

# Not capturable, as on CUDA: the operator that runs synchronously, or the text of another reason. Remove entries that
# can be captured.
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
    **dict.fromkeys(["combinations", "masked_select"], "masked_select"),
    **dict.fromkeys(["corrcoef", "cov", "equal"], "equal"),
    **dict.fromkeys(["linalg_lstsq", "linalg_lstsq_grad_oriented"], "linalg_lstsq.out"),
    **dict.fromkeys(["sparse_mm_reduce", "sparse_sampled_addmm"], "clone"),
    "nn_functional_ctc_loss": "_ctc_loss",
    "to_sparse": "_to_sparse",
    "unique": "_unique2",
    "unique_consecutive": "unique_consecutive",
    **dict.fromkeys(["__getitem__", "masked_cumprod", "masked_cumsum"], "a copy between host and device"),
    **dict.fromkeys(
        ["item", "nn_functional_feature_alpha_dropout_without_train"], "reading a generator's state"
    ),
}

# Given wrong arguments they crash the process on the CPU: PyTorch's kernels read and write where those say.
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
}

# Wrong arguments that are not refused as by the CPU.
OTHERWISE_REFUSED = {
    **dict.fromkeys(
        ["_softmax_backward_data", "max_pool2d_with_indices_backward"],
        "late: backwards are not asked, since their forwards were",
    ),
    **dict.fromkeys(
        ["nanmean", "nansum", "nn_functional_multi_margin_loss", "nn_functional_multilabel_margin_loss"],
        "of dtypes that CUDA has and the CPU lacks",
    ),
    "cat": "into its own empty input: the result is right",
    "nn_functional_linear_cross_entropy_chunked": "of two dtypes, which CUDA refuses and the CPU lets pass",
    "nn_functional_one_hot": "the CPU looks at the data first; other devices do not",
    "nn_functional_scaled_dot_product_attention": "of a negative dropout, of which the CPU says that it is positive",
    "resize_": "to a negative size, of which the CPU says that it is too large",
    "tensor_split": "takes its indices from the host only, as on CUDA",
}

# Results whose strides are not the CPU's: their Meta kernels, which are right for CUDA, say so.
OTHER_STRIDES = {
    "fft_hfft2",
    "fft_rfft2",
    "fft_rfftn",
    "linalg_eig",
    "linalg_lu_solve",
    "nn_functional_pad_replicate_negative",
}

# Not compared in other forms, each with the reason.
OTHER_VARIANTS = {
    "addr": "the CPU refuses a number in place, and takes it as an output",
    "normal": "the CPU refuses an output of nothing",
    "normal_number_mean": "the CPU refuses an output of nothing",
    "tensor_split": "takes its indices from the host only, as on CUDA",
    "to": "may leave the device",
}
