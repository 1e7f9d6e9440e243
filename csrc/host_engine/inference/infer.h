// Output plans: inferred at the first call with a launch key, then looked up.
//
// Note [Launch cache]
// An operator's Meta kernel infers the shapes of its results. That is slow, sometimes Python, so the answer
// is kept under the call's key, and the second call of the same kind costs a look-up. Each thread has a
// cache of its own: no lock on the way to a launch.
#pragma once

#include "host_engine/inference/launch_key.h"
#include "host_engine/ops/output_plan.h"

#include <ATen/core/stack.h>
#include <c10/util/Exception.h>

#include <vector>

namespace openreg {

/// The plan for a call with that key, worked out if need be: then *fresh is true, and what inference
/// warned about is in *warnings.
const OutputPlanPtr& plan_for(const c10::OperatorHandle& op, const OpTraits& traits, const LaunchKey& key,
                              const torch::jit::Stack& stack, bool* fresh,
                              std::vector<c10::Warning>* warnings);

/// For operators whose shapes come from the kernel: a plan from the results that a call had, kept for the
/// next call with that key. The stack ends with them, as device tensors.
void remember_plan(const OpTraits& traits, const LaunchKey& key, const torch::jit::Stack& stack);

}  // namespace openreg
