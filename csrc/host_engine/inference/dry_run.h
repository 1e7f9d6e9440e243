// Runs a CPU kernel on stand-ins on the host, before the launch, to learn what the real call would do.
//
// Note [Dry runs]
// No table says which dtypes a kernel supports, and many Meta kernels check less than the CPU kernel. A
// launched kernel would report such an error late. So the kernel first runs on the host, on stand-ins: zeros,
// then ones, since integer division rejects zeros. A small call runs with its own shapes; then the dry run
// gives the output shapes too. A large call runs with every dimension cut to kLargestDim, and only decides
// whether the kernel accepts the call. Its answer is kept, under everything that it depends on.
//
// A call that a dry run rejects is not launched: it runs synchronously and throws its own error, or succeeds.
#pragma once

#include "host_engine/ops/output_plan.h"

namespace openreg {

/// True if the kernel may run on stand-ins: it is PyTorch's, and reads no further than the shapes say.
bool may_dry_run(const OpTraits& traits, const torch::jit::Stack& stack);

/// True if a dry run with the call's own shapes costs little, for the call and for a plan of its results.
bool is_small(const OpTraits& traits, const torch::jit::Stack& stack);

/// The output plan from a dry run with the call's own shapes. It cannot launch if the kernel rejects the
/// call.
OutputPlanPtr plan_by_dry_run(const c10::OperatorHandle& op, const OpTraits& traits,
                              const torch::jit::Stack& stack);

/// What a rejection by a dry run with cut shapes means, other than that a dtype is not implemented.
enum class OnRejection {
  CheckDtypes,   // something else has checked the shapes: rejected for its dtypes, or only for the cut
  RunAtTheCall,  // nothing else has checked the arguments
};

/// Whether the call can be launched, by a dry run with cut shapes.
bool kernel_accepts(const c10::OperatorHandle& op, const OpTraits& traits, const torch::jit::Stack& stack,
                    OnRejection on_rejection);

}  // namespace openreg
