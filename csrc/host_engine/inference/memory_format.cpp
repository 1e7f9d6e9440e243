#include "host_engine/inference/memory_format.h"

#include <c10/core/MemoryFormat.h>

#include <algorithm>

namespace openreg {
namespace {

bool is_channels_last(const at::Tensor& tensor) {
  const at::MemoryFormat format = tensor.suggest_memory_format();
  // Kernels for 3d and double work on contiguous memory.
  return format == at::MemoryFormat::ChannelsLast ||
         (format == at::MemoryFormat::ChannelsLast3d && tensor.scalar_type() != at::kDouble);
}

void put_channels_last(TensorSpec& spec) {
  if (!spec.defined) {
    return;
  }
  if (spec.sizes.size() == 4) {
    const auto strides = c10::get_channels_last_strides_2d(spec.sizes);
    spec.strides.assign(strides.begin(), strides.end());
  } else if (spec.sizes.size() == 5) {
    const auto strides = c10::get_channels_last_strides_3d(spec.sizes);
    spec.strides.assign(strides.begin(), strides.end());
  }
}

}  // namespace

void apply_memory_format(const OpTraits& traits, const torch::jit::Stack& stack, OutputPlan& plan) {
  const OpRule* rule = traits.rules.format;
  if (!plan.can_launch || rule == nullptr) {
    return;
  }
  const auto* deciding = &stack[stack.size() - traits.arguments + rule->first_argument];
  if (std::any_of(deciding, deciding + rule->arguments,
                  [](const c10::IValue& v) { return is_channels_last(v.toTensor()); })) {
    for (OutputPlan::Result& result : plan.results) {
      put_channels_last(result.tensors[0]);
    }
  }
}

}  // namespace openreg
