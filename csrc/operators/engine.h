// The engine: runs an operator's CPU kernel on device memory, in place, in stream order.
//
// Note [The engine]
// An operator for which the device has no kernel of its own arrives here with its arguments on a stack.
// Device tensors are replaced by aliases, devices by the CPU, and the CPU kernel runs as a kernel of the
// current stream. What it wrote is already where it belongs; what it made was born in device memory and is
// taken over. Nothing is copied. The call returns when the kernel has run.
//
// Thread safety: any number of threads may run operators at the same time.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace openreg {

/// What the dispatcher calls the engine when it is asked for an operator's kernel.
inline constexpr const char* kEngineLabel = "the engine of " OR_DEVICE_NAME;

/// A boxed kernel for any operator. Throws what the CPU kernel throws.
void run_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace openreg
