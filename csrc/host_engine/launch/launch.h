// Launches an operator: allocates the results, submits the kernel to the stream and returns.
#pragma once

#include "host_engine/inference/call_warnings.h"
#include "host_engine/ops/op_traits.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace openreg {

/// Launches the operator and replaces the arguments on the stack by the results. Or returns false and leaves
/// the stack unchanged: the operator must then run synchronously. Shape, dtype and device errors throw at the
/// call. `only_captured`: returns false unless the stream is captured into a graph. `warnings`: set if false
/// is returned and the call may warn.
bool launch(const c10::OperatorHandle& op, const OpTraits& traits, torch::jit::Stack* stack,
            bool only_captured, CallWarnings* warnings);

}  // namespace openreg
