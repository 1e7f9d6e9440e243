// Runs a CPU kernel on placeholder host tensors before the launch, to find out whether it accepts the call.
//
// Note [Dry runs]
// PyTorch has no table of the dtypes that a kernel supports, and many Meta kernels check less than the CPU
// kernel. A launched kernel would report such errors late. So the kernel first runs on placeholder host
// tensors: zeros, then ones, since integer division rejects zeros. For a small call they have the call's
// shapes, and the dry run also gives the output shapes. For a large call every dimension is cut to
// kLargestDim, and the dry run only shows whether the kernel accepts the call. The result is cached under a
// launch key.
//
// A call that a dry run rejects is not launched: it runs synchronously, and throws the kernel's error or
// succeeds.
#pragma once

#include "host_engine/ops/output_plan.h"

namespace openreg {

/// True if the kernel may run on placeholders: it is PyTorch's, and memory accesses depend on shapes only,
/// not on integer data.
bool may_dry_run(const OpTraits& traits, const torch::jit::Stack& stack);

/// True if a dry run with the shapes of the call is cheap.
bool is_small(const OpTraits& traits, const torch::jit::Stack& stack);

/// The output plan from a dry run with the shapes of the call. `can_launch` is false if the kernel rejects
/// the call.
OutputPlanPtr plan_by_dry_run(const c10::OperatorHandle& op, const OpTraits& traits,
                              const torch::jit::Stack& stack);

/// What to do when a dry run with cut shapes throws an error other than NotImplementedError.
enum class OnRejection {
  CheckDtypes,       // inference has checked the shapes: the cause is the dtypes, or only the cut shapes
  RunSynchronously,  // nothing else has checked the arguments
};

/// Whether the call can be launched, according to a dry run with cut shapes. Cached per thread.
bool kernel_accepts(const c10::OperatorHandle& op, const OpTraits& traits, const torch::jit::Stack& stack,
                    OnRejection on_rejection);

}  // namespace openreg
