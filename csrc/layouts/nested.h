// Nested tensors of the strided layout: one buffer on the device, and sizes, strides and offsets on the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace openreg {

inline bool is_nested(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_nested() && tensor.layout() == c10::kStrided;
}

/// A nested tensor of the same shape over `replace(buffer)`, on the device of that buffer.
at::Tensor map_nested_components(const at::Tensor& nested,
                                 const std::function<at::Tensor(const at::Tensor&)>& replace);

}  // namespace openreg
