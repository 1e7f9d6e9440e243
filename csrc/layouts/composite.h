// Sparse and nested tensors: wrappers over dense tensors of the device (their components).
//
// A CPU kernel gets the same wrapper over aliases of the components. Its result becomes a wrapper over
// components that are taken over as device tensors.
#pragma once

#include "layouts/nested.h"
#include "layouts/sparse.h"

namespace openreg {

inline bool is_composite(const at::Tensor& tensor) {
  return is_sparse_layout(tensor) || is_nested(tensor);
}

/// A tensor of the same kind and size, with the components `replace(component)`, on the device of those.
inline at::Tensor map_components(const at::Tensor& wrapper,
                                 const std::function<at::Tensor(const at::Tensor&)>& replace) {
  return is_nested(wrapper) ? map_nested_components(wrapper, replace)
                            : map_sparse_components(wrapper, replace);
}

/// Assigns the size and the components of `source`, which is on the same device, to `wrapper`. No effect on
/// nested tensors: writes do not change their shape.
inline void assign(const at::Tensor& wrapper, const at::Tensor& source) {
  if (!is_nested(wrapper)) {
    assign_sparse(wrapper, source);
  }
}

}  // namespace openreg
