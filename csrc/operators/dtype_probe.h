// Whether the CPU has the kernel for a call's dtypes. No table says so: a kernel finds out when it runs, and
// for a launched one that is late. So before the first launch of an operator with certain dtypes its kernel
// runs once on the host, on a few zeros. Only what it says of dtypes is listened to, and a call that it
// refuses is not launched: it runs at once, and is refused in the operator's own words.
#pragma once

#include "operators/facts.h"

#include <ATen/core/stack.h>

namespace openreg {

/// Whether the CPU's kernel refuses the dtypes of this call. Remembered for each operator and thread.
bool refuses_dtypes(const c10::OperatorHandle& op, const OperatorFacts& facts,
                    const torch::jit::Stack& stack);

}  // namespace openreg
