// Whether the CPU has the kernel for a call's dtypes. No table says so: a kernel finds out when it runs, and
// for a launched one that is late. So before the first launch of an operator with certain dtypes its kernel
// runs once on the host, on a few zeros. A call that it refuses is not launched: it runs at once, and is
// refused in the operator's own words. Only what it says of dtypes is listened to, unless nobody else looks
// at the arguments: what only changes itself has no shapes to infer.
#pragma once

#include "operators/facts.h"

#include <ATen/core/stack.h>

namespace openreg {

/// Whether the CPU's kernel refuses the dtypes of this call; or, with `any_error`, refuses it for whatever
/// reason. Remembered for each operator and thread.
bool kernel_refuses(const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack,
                    bool any_error);

}  // namespace openreg
