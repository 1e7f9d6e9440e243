// Memory that a call both writes and reads elsewhere. PyTorch's kernels refuse it; a launched kernel would do
// so late, so such a call runs at once.
#pragma once

#include "operators/facts.h"

#include <ATen/core/stack.h>

namespace openreg {

/// Both of dense device tensors.
bool overlaps_itself(const at::Tensor& written);
bool partly_in(const at::Tensor& written, const at::Tensor& other);

/// Whether kernels of the operator refuse to write where they read, even if it is the same place: they read
/// elements after others were written.
bool refuses_overlap(const std::string& operator_name);

/// Whether a tensor that the call writes overlaps itself, or lies partly in another argument's memory; or is
/// that, if the operator refuses it.
bool writes_overlap(const OperatorFacts& facts, const torch::jit::Stack& stack);

}  // namespace openreg
