// What kernels refuse and the inference of shapes lets pass, for operators that cannot be asked (see
// probe.h): their kernels refuse zeros too, or would work long. Written from what the kernels check; which
// they are was found with wrong arguments for every operator (tests/ops/test_wrong_arguments.py).
#pragma once

#include "host_engine/ops/op_traits.h"

#include <ATen/core/stack.h>

namespace openreg {

/// Whether the shapes or the numbers of this call are wrong. False means that no rule says so. May throw what
/// PyTorch's own checks say.
bool rejects_arguments(const OpTraits& traits, const torch::jit::Stack& stack);

}  // namespace openreg
