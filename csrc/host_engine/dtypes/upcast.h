// Dtypes that CUDA's kernels have and the CPU's lack. The operator is launched in a wider dtype between two
// casts: all of it on the device, none of it waits. The list is CUDA's and no longer, so that a program which
// works here works there.
#pragma once

#include "host_engine/ops/op_traits.h"

#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include <string>

namespace openreg {

/// Whether this call has a tensor of such a dtype.
bool needs_upcast(const OpTraits& traits, const torch::jit::Stack& stack);

/// Calls the operator in a wider dtype; the results have the dtype that they should have.
void run_upcast(const c10::OperatorHandle& op, const OpTraits& traits, torch::jit::Stack* stack);

}  // namespace openreg
