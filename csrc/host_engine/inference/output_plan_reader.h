// Makes an output plan from the results of a call with placeholder arguments: Meta tensors, host tensors, or
// device tensors that were not written.
#pragma once

#include "host_engine/ops/output_plan.h"

#include <vector>

namespace openreg {

TensorSpec spec_of(const at::Tensor& tensor);

/// The storages of all tensors on a stack.
std::vector<const c10::StorageImpl*> storages_of(const torch::jit::Stack& stack);

/// Reads the shapes of the results, which are at the end of `stack`, on device type `type`. False if they
/// cannot be allocated before the kernel runs: one shares memory with an argument (storages in `seen`) or
/// with another result, or is not a plain strided tensor.
bool read_results(const OpTraits& traits, const torch::jit::Stack& stack, c10::DeviceType type,
                  std::vector<const c10::StorageImpl*> seen, OutputPlan& plan);

/// Reads which outputs the call resized. `before` ends with the arguments of the call; `after` holds the
/// placeholders, on device type `type`. False if an output in a list was resized.
bool read_resizes(const OpTraits& traits, const torch::jit::Stack& before, const torch::jit::Stack& after,
                  c10::DeviceType type, OutputPlan& plan);

}  // namespace openreg
