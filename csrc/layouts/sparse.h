// Sparse tensors: a few dense tensors of the device in one wrapper.
//
// A kernel of the CPU gets the same wrapper over aliases of the parts; what it returns is wrapped again over
// parts that were taken over. Operators on sparse tensors wait: how many elements a result has depends on
// data.
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

/// A tensor of the same layout and size over parts that `replace` makes of its parts, on their device.
at::Tensor map_sparse_components(const at::Tensor& sparse,
                                 const std::function<at::Tensor(const at::Tensor&)>& replace);

/// Gives `sparse` the size and the parts of `source`, which is on the same device.
void assign_sparse(const at::Tensor& sparse, const at::Tensor& source);

}  // namespace openreg
