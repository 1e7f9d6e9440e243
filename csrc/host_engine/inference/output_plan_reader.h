// Reads an output plan off a call that was made with stand-ins for the arguments: Meta tensors, host tensors,
// or device tensors that are not written.
#pragma once

#include "host_engine/ops/output_plan.h"

#include <vector>

namespace openreg {

TensorSpec spec_of(const at::Tensor& tensor);

/// The storages of all tensors on a stack.
std::vector<const c10::StorageImpl*> storages_of(const torch::jit::Stack& stack);

/// Reads the shapes of the results, which end `stack` and are all on `type`. False if they cannot be
/// allocated before the kernel runs: they share memory with an argument, whose storages are `seen`, or with
/// each other.
bool read_results(const OpTraits& traits, const torch::jit::Stack& stack, c10::DeviceType type,
                  std::vector<const c10::StorageImpl*> seen, OutputPlan& plan);

/// Reads which outputs the call has resized: `before` ends with the real arguments, `after` are the
/// stand-ins, on `type`. False if an output in a list was.
bool read_resizes(const OpTraits& traits, const torch::jit::Stack& before, const torch::jit::Stack& after,
                  c10::DeviceType type, OutputPlan& plan);

}  // namespace openreg
