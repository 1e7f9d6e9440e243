#include "layouts/sparse.h"

#include "device/device.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <c10/core/DeviceGuard.h>

namespace openreg {
namespace {

at::SparseTensorImpl* coo(const at::Tensor& tensor) {
  return static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

at::SparseCsrTensorImpl* compressed(const at::Tensor& tensor) {
  return static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
}

bool is_coo(const at::Tensor& tensor) {
  return tensor.layout() == c10::kSparse;
}

void set_coo(const at::Tensor& to, const at::Tensor& like, const at::Tensor& indices,
             const at::Tensor& values) {
  coo(to)->raw_resize_(coo(like)->sparse_dim(), coo(like)->dense_dim(), like.sizes());
  coo(to)->set_indices_and_values_unsafe(indices, values);
  coo(to)->set_coalesced(coo(like)->coalesced());
}

// Indices and values; for compressed layouts compressed indices, plain indices and values.
c10::SmallVector<at::Tensor, 3> parts_of(const at::Tensor& sparse) {
  if (is_coo(sparse)) {
    return {coo(sparse)->indices(), coo(sparse)->values()};
  }
  const at::SparseCsrTensorImpl* impl = compressed(sparse);
  return {impl->compressed_indices(), impl->plain_indices(), impl->values()};
}

}  // namespace

at::Tensor map_sparse_components(const at::Tensor& sparse,
                                 const std::function<at::Tensor(const at::Tensor&)>& replace) {
  const auto parts = parts_of(sparse);
  const at::Tensor first = replace(parts[0]);
  const at::Tensor second = replace(parts[1]);
  const bool is_device = first.device().type() == kDevice;
  if (is_coo(sparse)) {
    const auto key = is_device ? c10::DispatchKey::SparsePrivateUse1 : c10::DispatchKey::SparseCPU;
    // A new COO tensor allocates its components on the current device.
    const c10::DeviceGuard guard(first.device());
    at::Tensor made = at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(key), sparse.dtype());
    set_coo(made, sparse, first, second);
    return made;
  }
  const auto key = is_device ? c10::DispatchKey::SparseCsrPrivateUse1 : c10::DispatchKey::SparseCsrCPU;
  at::Tensor made = at::detail::make_tensor<at::SparseCsrTensorImpl>(c10::DispatchKeySet(key), first.device(),
                                                                     sparse.layout(), sparse.dtype());
  compressed(made)->set_member_tensors(first, second, replace(parts[2]), sparse.sizes());
  return made;
}

void assign_sparse(const at::Tensor& sparse, const at::Tensor& source) {
  const auto parts = parts_of(source);
  if (is_coo(sparse)) {
    set_coo(sparse, source, parts[0], parts[1]);
  } else {
    compressed(sparse)->set_member_tensors(parts[0], parts[1], parts[2], source.sizes());
  }
}

}  // namespace openreg
