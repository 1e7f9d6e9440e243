// Strides of convolution results, where Meta kernels do not give them.
#pragma once

#include "host_engine/ops/output_plan.h"

namespace openreg {

/// Gives the results of convolutions the memory format of their kernels: channels last if the input or the
/// weight is channels last. Meta kernels select the format by device type, and do not support PrivateUse1.
void apply_memory_format(const OpTraits& traits, const torch::jit::Stack& stack, OutputPlan& plan);

}  // namespace openreg
