#include "host_engine/inference/memory_format.h"

#include <c10/core/MemoryFormat.h>

#include <array>

namespace openreg {
namespace {

// A convolution of one dimension runs as one of two dimensions, of which the first has size 1. Strides of
// dimensions of size 1 can make such a view channels last.
bool is_channels_last_1d(const at::Tensor& tensor, bool made_contiguous) {
  const at::IntArrayRef sizes = tensor.sizes();
  const int64_t plane = sizes[1] * sizes[2];
  const std::array<int64_t, 3> contiguous{plane, sizes[2], 1};
  const at::IntArrayRef strides =
      made_contiguous && !tensor.is_contiguous() ? at::IntArrayRef(contiguous) : tensor.strides();
  const std::array<int64_t, 4> view_sizes{sizes[0], sizes[1], 1, sizes[2]};
  const std::array<int64_t, 4> view_strides{strides[0], strides[1], sizes[2] * strides[2], strides[2]};
  return c10::is_channels_last_strides_2d(at::IntArrayRef(view_sizes), at::IntArrayRef(view_strides));
}

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
  if (spec.sizes.size() == 3) {
    const int64_t channels = spec.sizes[1];
    spec.strides = {channels * spec.sizes[2], 1, channels};
  } else if (spec.sizes.size() == 4) {
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
  bool channels_last = false;
  for (size_t i = 0; i < rule->arguments; ++i) {
    const at::Tensor& tensor = deciding[i].toTensor();
    // Of the others, none has a format with three dimensions.
    channels_last |= tensor.dim() == 3 && rule->arguments == 2
                         ? is_channels_last_1d(tensor, /*made_contiguous=*/i == 0)
                         : is_channels_last(tensor);
  }
  if (channels_last) {
    for (OutputPlan::Result& result : plan.results) {
      put_channels_last(result.tensors[0]);
    }
  }
}

}  // namespace openreg
