"""Fake results have the shapes, strides and dtypes of the real ones. Compiled code relies on them.

Three samples of a seventh of the operators, another seventh each day; all operators in `make test-ops`.
"""

import pytest
import torch
from agreement import ALL, DEVICE, OPERATORS, is_due
from torch._subclasses.fake_utils import CrossRefFakeMode, MetadataMismatchError

SAMPLES = 100 if ALL else 3

_BATCH_NORM = "the CPU kernel saves no statistics in eval mode"
_UNPOOL = "the CPU kernel keeps channels last"
# Operators whose fake results differ, with the reason.
DIFFERENT = {
    "_native_batch_norm_legit": _BATCH_NORM,
    "native_batch_norm": _BATCH_NORM,
    "nn_functional_batch_norm": _BATCH_NORM,
    "nn_functional_batch_norm_without_cudnn": _BATCH_NORM,
    "nn_functional_embedding_bag": "the CPU kernel's results for backward have other sizes than those of CUDA",
    "nn_functional_max_unpool2d": _UNPOOL,
    "nn_functional_max_unpool2d_grad": _UNPOOL,
    "nn_functional_scaled_dot_product_attention": "with dropout, the mask is saved; traced programs do not use this kernel",
}


@pytest.mark.parametrize("name", [name for name in OPERATORS if is_due(name)])
def test_fake_results_match(name):
    op = OPERATORS[name]
    dtypes = op.supported_dtypes("cpu")
    dtype = torch.float32 if torch.float32 in dtypes else min(dtypes, key=str, default=None)
    if dtype is None:
        pytest.skip("the operator has no kernel")
    for sample in list(op.sample_inputs(DEVICE, dtype))[:SAMPLES]:
        try:
            with CrossRefFakeMode(check_strides=True, check_aliasing=False):
                op(sample.input, *sample.args, **sample.kwargs)
        except MetadataMismatchError as error:
            if name not in DIFFERENT:
                raise
            pytest.xfail(f"{DIFFERENT[name]}: {error}")
        except Exception as error:  # the operator does not support fake tensors, or this sample is an error
            if "mismatch" in str(error).lower():
                raise
    assert not (ALL and name in DIFFERENT), f"{name} does not differ; remove it from DIFFERENT"
