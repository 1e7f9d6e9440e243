#include "kernel/arg_alias.h"

#include "diagnostics/tensor_access.h"
#include "layouts/quantized.h"
#include "memory/kernel_view.h"

namespace openreg {

at::Tensor alias(const at::Tensor& tensor, bool writes) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (C10_UNLIKELY(!impl->has_storage())) {
    (void)impl->data();  // throws the tensor's own message: its memory was taken by a later replay of a graph
  }
  TORCH_CHECK_NOT_IMPLEMENTED(impl->has_storage() && tensor.layout() == c10::kStrided,
                              "a kernel requires a strided ", orGetDeviceName(),
                              " tensor with a storage, but got a tensor with layout ", tensor.layout());
  if (C10_UNLIKELY(races::on())) {
    collect_access(tensor, writes);
  }
  c10::Storage storage(alias_of(*impl, writes));
  if (C10_UNLIKELY(tensor.is_quantized())) {
    return quantized_over(std::move(storage), tensor);
  }
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  c10::TensorImpl* alias_impl = result.unsafeGetTensorImpl();
  alias_impl->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  if (C10_UNLIKELY(impl->is_conj())) {
    alias_impl->_set_conj(true);
  }
  if (C10_UNLIKELY(impl->is_neg())) {
    alias_impl->_set_neg(true);
  }
  if (C10_UNLIKELY(impl->is_wrapped_number())) {
    alias_impl->set_wrapped_number(true);
  }
  return result;
}

void AliasPlace::restore() const {
  if (left()) {
    storage->set_data_ptr_noswap(c10::DataPtr(const_cast<void*>(data), c10::Device(c10::kCPU)));
  }
  storage->set_nbytes(bytes);
}

}  // namespace openreg
