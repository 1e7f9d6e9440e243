// Sparse tensors: wrappers over dense tensors of the device (indices and values).
//
// A CPU kernel gets the same wrapper over aliases of the components. Its result becomes a wrapper over
// components that are taken over as device tensors. Operators on sparse tensors synchronize: the number of
// elements of a result is data-dependent.
#pragma once

#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <functional>

namespace openreg {

/// COO, CSR, CSC, BSR or BSC.
inline bool is_sparse_layout(const at::Tensor& tensor) {
  return tensor.defined() &&
         (tensor.layout() == c10::kSparse || at::sparse_csr::is_sparse_compressed(tensor));
}

/// A tensor of the same layout and size, with the components `replace(component)`, on the device of those.
at::Tensor map_sparse_components(const at::Tensor& sparse,
                                 const std::function<at::Tensor(const at::Tensor&)>& replace);

/// Assigns the size and the components of `source`, which is on the same device, to `sparse`.
void assign_sparse(const at::Tensor& sparse, const at::Tensor& source);

}  // namespace openreg
