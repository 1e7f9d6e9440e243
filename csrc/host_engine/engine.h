// The engine: runs an operator's CPU kernel on device memory, in place, in stream order.
//
// Note [The engine]
// An operator for which the device has no kernel of its own arrives here with its arguments on a stack.
// Device tensors are replaced by aliases, devices by the CPU, and the CPU kernel runs as a kernel of the
// current stream. Where the shapes of its results can be known before, they are allocated, the work is
// queued, and the call returns (launch.h). Where they cannot, or under the blocking schedule, it runs here
// and now: what it wrote is already where it belongs, what it made is pool-backed and is taken
// over. Nothing is copied.
//
// Thread safety: any number of threads may run operators at the same time.
#pragma once

#include "common/export.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace openreg {

/// What the dispatcher calls the engine when it is asked for an operator's kernel.
inline constexpr const char* kEngineLabel = "the engine of " OR_DEVICE_NAME;

/// Boxed kernel for any operator. Shape, dtype and device errors throw at the call; data-dependent errors at
/// the next synchronization, or at the call of an operator that synchronizes.
void run_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Boxed kernel for sparse, nested and quantized tensors. Always synchronizes.
void run_wrapped_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Gives the engine the structured operators for which the device has no kernel of its own. Call it once,
/// when the library is loaded: the kernels are registered by then, in whatever order. Without it those
/// operators work too, and cost the launch twice.
OPENREG_EXPORT void register_engine();

}  // namespace openreg
