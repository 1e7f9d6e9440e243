// Arguments of a dry run: those of the call, with placeholder host tensors instead of device tensors.
#pragma once

#include "host_engine/ops/op_traits.h"

#include <ATen/core/stack.h>

#include <cstdint>
#include <limits>

namespace openreg {

/// How placeholders differ from the tensors of the call.
struct DryRunArgSpec {
  enum class Dtypes {
    AsGiven,
    Common,        // float32 for floating and complex dtypes, int64 for integers
    Float,         // float32 for all but bool
    FloatForBool,  // float32 for all
  };

  int64_t largest_dim = std::numeric_limits<int64_t>::max();  // larger dimensions are cut to this
  int value = 0;                                              // of all elements
  Dtypes dtypes = Dtypes::AsGiven;
};

/// Makes the arguments of a dry run from those of the call, which are at the end of `stack`. Host tensors are
/// cloned, since the kernel may write to them. A generator argument is replaced by a new CPU generator.
torch::jit::Stack make_dry_run_args(const OpTraits& traits, const torch::jit::Stack& stack,
                                    DryRunArgSpec spec);

}  // namespace openreg
