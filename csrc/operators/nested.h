// Nested tensors of the strided layout: one buffer on the device, and sizes, strides and offsets on the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace openreg {

inline bool is_nested(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_nested() && tensor.layout() == c10::kStrided;
}

/// Gives the engine the operators that have kernels for nested tensors of the CPU. Call it once, when the
/// library is loaded.
void register_nested_engine();

/// A nested tensor of the same shape over the buffer that `replace` makes of its buffer, on that device.
at::Tensor rebuild_nested(const at::Tensor& nested,
                          const std::function<at::Tensor(const at::Tensor&)>& replace);

}  // namespace openreg
