// The strides of results where Meta kernels do not know them.
#pragma once

#include "host_engine/ops/output_plan.h"

namespace openreg {

/// Gives the results of convolutions the layout that their kernels make: channels last, if the input or the
/// weight is so. Their Meta kernels ask which device it is, and know only PyTorch's own.
void apply_memory_format(const OpTraits& traits, const torch::jit::Stack& stack, OutputPlan& plan);

}  // namespace openreg
