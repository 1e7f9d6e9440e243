// Tensors that are a wrapper over dense tensors of the device: sparse and nested ones.
//
// A kernel of the CPU gets the same wrapper over aliases of the parts; what it returns is wrapped again over
// parts that were taken over.
#pragma once

#include "layouts/nested.h"
#include "layouts/sparse.h"

namespace openreg {

inline bool is_composite(const at::Tensor& tensor) {
  return is_sparse_layout(tensor) || is_nested(tensor);
}

/// A tensor of the same kind and size over parts that `replace` makes of its parts, on their device.
inline at::Tensor map_components(const at::Tensor& wrapper,
                                 const std::function<at::Tensor(const at::Tensor&)>& replace) {
  return is_nested(wrapper) ? map_nested_components(wrapper, replace)
                            : map_sparse_components(wrapper, replace);
}

/// Gives `wrapper` the size and the parts of `source`, which is on the same device. A nested tensor has them:
/// what writes to it keeps its shape.
inline void assign(const at::Tensor& wrapper, const at::Tensor& source) {
  if (!is_nested(wrapper)) {
    assign_sparse(wrapper, source);
  }
}

}  // namespace openreg
