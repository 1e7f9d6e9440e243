#include "host_engine/inference/memory_format.h"

#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <string_view>

namespace openreg {
namespace {

bool is_channels_last(const at::Tensor& tensor) {
  const at::MemoryFormat format = tensor.suggest_memory_format();
  // Kernels for three dimensions and doubles work on contiguous memory.
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

// Operators that keep it, with the first and the number of the arguments that decide.
struct Keeper {
  std::string_view name;
  size_t first;
  size_t count;
};

constexpr Keeper kKeepers[] = {
    {"aten::convolution", 0, 2},          {"aten::_convolution", 0, 2},
    {"aten::convolution_backward", 1, 2}, {"aten::native_channel_shuffle", 0, 1},
    {"aten::channel_shuffle", 0, 1},      {"aten::pixel_shuffle", 0, 1},
    {"aten::max_unpool2d", 0, 1},
};

}  // namespace

void apply_memory_format(const OpTraits& traits, const torch::jit::Stack& stack, OutputPlan& plan) {
  const Keeper* keeper = std::ranges::find(kKeepers, std::string_view(traits.name), &Keeper::name);
  if (!plan.can_launch || keeper == std::end(kKeepers)) {
    return;
  }
  const auto* deciding = &stack[stack.size() - traits.arguments + keeper->first];
  if (std::any_of(deciding, deciding + keeper->count,
                  [](const c10::IValue& v) { return is_channels_last(v.toTensor()); })) {
    for (OutputPlan::Result& result : plan.results) {
      put_channels_last(result.tensors[0]);
    }
  }
}

}  // namespace openreg
