// What a kernel would refuse, found before it is launched. No table says which dtypes a kernel takes, and a
// Meta kernel does not look at everything: a kernel finds out when it runs, and for a launched one that is
// late. So it runs once before, on the host, on zeros. A call that it refuses is not launched: it runs at
// once, and is refused in the operator's own words.
#pragma once

#include "operators/plan.h"

namespace openreg {

/// Whether the CPU's kernel refuses this call, or its results have other shapes than the plan's. Where it
/// takes much work to find out, and of kernels that may refuse zeros, one element is tried, remembered for
/// each operator and thread, and only what is said of dtypes counts; unless `alone`: then nobody else looks
/// at the arguments.
bool kernel_refuses(const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack,
                    const Plan& plan, bool alone);

}  // namespace openreg
