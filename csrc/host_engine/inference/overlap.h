// Memory that a call both writes and reads elsewhere. PyTorch's kernels refuse it; a launched kernel would do
// so late, so such a call runs at once.
#pragma once

#include "host_engine/ops/op_traits.h"

#include <ATen/core/stack.h>

namespace openreg {

/// Whether a tensor that the call writes overlaps itself, or lies partly in another argument's memory; or is
/// that, if the operator refuses it.
bool writes_overlap(const OpTraits& traits, const torch::jit::Stack& stack);

}  // namespace openreg
