// The host engine: runs an operator's CPU kernel on device memory, in place, in stream order.
//
// Note [Host engine]
// The dispatcher calls the engine for operators without a device kernel, with the arguments on a stack. The
// engine replaces device tensors by aliases and device arguments by the CPU, and runs the CPU kernel as a
// kernel of the current stream. If the result shapes can be inferred, the engine allocates the results,
// launches the kernel and returns (launch.h). Otherwise, and under the blocking schedule, the kernel runs
// synchronously: it writes its outputs in place, and the engine takes ownership of the pool-backed results
// that it allocated. Nothing is copied.
//
// Thread safety: any number of threads may run operators at the same time.
#pragma once

#include "common/export.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace openreg {

/// Debug label of the engine's kernels in the dispatcher's tables.
inline constexpr const char* kEngineLabel = "the host engine";

/// Boxed kernel for any operator. Shape, dtype and device errors throw at the call; data-dependent errors at
/// the next synchronization, or at the call of an operator that synchronizes.
void run_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Boxed kernel for sparse, nested and quantized tensors. Always synchronizes.
void run_wrapped_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Registers the engine for operators that have a default (composite) kernel, a CPU kernel and no device
/// kernel, and for sparse, nested and quantized tensors. Call it once, after the library is loaded: by then
/// all static registrations are done. Without it the former work, but need several launches.
OPENREG_EXPORT void register_engine();

}  // namespace openreg
