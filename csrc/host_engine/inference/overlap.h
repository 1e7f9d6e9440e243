// Arguments that overlap in memory with a written argument. PyTorch's kernels reject them. A launched kernel
// would report the error late, so such a call runs synchronously.
#pragma once

#include "host_engine/ops/op_traits.h"

#include <ATen/core/stack.h>

namespace openreg {

/// Whether a tensor that the call writes overlaps itself, another tensor that it writes, or a part of another
/// argument, or fully overlaps an argument where the operator rejects that (kRejectsOverlap).
bool writes_overlap(const OpTraits& traits, const torch::jit::Stack& stack);

}  // namespace openreg
