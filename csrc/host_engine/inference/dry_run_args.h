// Arguments for a dry run: the call's own, with host tensors of one value in the place of device tensors.
#pragma once

#include "host_engine/ops/op_traits.h"

#include <ATen/core/stack.h>

#include <cstdint>
#include <limits>

namespace openreg {

struct DryRunArgs {
  enum class Dtypes {
    AsGiven,
    Common,  // float32 for floating and complex dtypes, int64 for integers
    Float,   // float32 for all
  };

  int64_t largest_dim = std::numeric_limits<int64_t>::max();  // dimensions are cut to this
  int value = 0;
  Dtypes dtypes = Dtypes::AsGiven;
};

/// The arguments of the call, which end `stack`. Host tensors are copied: the kernel may write to them.
/// Random numbers come from a generator of their own.
torch::jit::Stack dry_run_args(const OpTraits& traits, const torch::jit::Stack& stack, DryRunArgs spec);

}  // namespace openreg
