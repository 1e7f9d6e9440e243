// Dtypes that CUDA kernels support and CPU kernels do not. The operator is launched in a wider dtype between
// two casts, on the device and without synchronization. Only dtypes that CUDA supports are upcast, so that a
// program that works here also works on CUDA.
#pragma once

#include "host_engine/ops/op_traits.h"

#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include <string>

namespace openreg {

/// Whether this call has a tensor argument, or computes, in a dtype that needs an upcast for this operator.
bool needs_upcast(const OpTraits& traits, const torch::jit::Stack& stack);

/// Calls the operator in a wider dtype and casts the results back.
void run_upcast(const c10::OperatorHandle& op, const OpTraits& traits, torch::jit::Stack* stack);

}  // namespace openreg
