// Output plans: inferred at the first call with a launch key, then looked up.
//
// Note [Launch cache]
// Shape inference is slow (a Meta kernel may be Python), so the output plan is cached under the launch key,
// and later calls with the same key cost a lookup. The cache is thread-local, so a launch takes no lock.
#pragma once

#include "host_engine/inference/launch_key.h"
#include "host_engine/ops/output_plan.h"

#include <ATen/core/stack.h>
#include <c10/util/Exception.h>

#include <vector>

namespace openreg {

/// The plan for a call with this key, inferred on a cache miss. *fresh: whether it was a miss. *warnings: the
/// warnings of the inference.
const OutputPlanPtr& plan_for(const c10::OperatorHandle& op, const OpTraits& traits, const LaunchKey& key,
                              const torch::jit::Stack& stack, bool* fresh,
                              std::vector<c10::Warning>* warnings);

/// For operators whose shapes come from the kernel: caches a plan made from the results of a call, which are
/// at the end of `stack` as device tensors.
void remember_plan(const OpTraits& traits, const LaunchKey& key, const torch::jit::Stack& stack);

}  // namespace openreg
