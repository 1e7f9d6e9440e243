// Memory that a call both writes and reads elsewhere. PyTorch's kernels refuse it; a launched kernel would do
// so late, so such a call runs at once.
#pragma once

#include "operators/facts.h"

#include <ATen/core/stack.h>

namespace openreg {

/// Both of dense device tensors.
bool overlaps_itself(const at::Tensor& written);
bool partly_in(const at::Tensor& written, const at::Tensor& other);

/// Whether a tensor that the call writes overlaps itself, or lies partly in another argument's memory.
bool writes_overlap(const OperatorFacts& facts, const torch::jit::Stack& stack);

}  // namespace openreg
