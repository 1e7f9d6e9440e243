#include "operators/alias.h"

#include "memory/device_allocator.h"
#include "memory/kernel_allocator.h"
#include "memory/kernel_view.h"
#include "operators/quantized.h"
#include "storage/device_storage.h"

#include <cstring>

namespace openreg {

at::Tensor alias(const at::Tensor& tensor, bool writes) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  TORCH_CHECK_NOT_IMPLEMENTED(impl->has_storage() && tensor.layout() == c10::kStrided, "a ", OR_DEVICE_NAME,
                              " tensor with layout ", tensor.layout(), " has no dense memory for a kernel");
  c10::Storage storage(alias_of(impl->unsafe_storage().unsafeGetStorageImpl(), writes));
  if (C10_UNLIKELY(tensor.is_quantized())) {
    return quantized_over(std::move(storage), tensor);
  }
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  c10::TensorImpl* twin = result.unsafeGetTensorImpl();
  twin->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  if (C10_UNLIKELY(impl->is_conj())) {
    twin->_set_conj(true);
  }
  if (C10_UNLIKELY(impl->is_neg())) {
    twin->_set_neg(true);
  }
  if (C10_UNLIKELY(impl->is_wrapped_number())) {
    twin->set_wrapped_number(true);
  }
  return result;
}

c10::Storage adopt(const c10::Storage& made_by_kernel, c10::DeviceIndex index) {
  c10::StorageImpl* made = made_by_kernel.unsafeGetStorageImpl();
  const c10::Device device(kDevice, index);
  const size_t bytes = made->nbytes();
  if (Block* block = take_born(made->mutable_data_ptr())) {
    made->set_data_ptr_noswap(c10::DataPtr(kernel_view(block->ptr), c10::Device(c10::kCPU)));
    block->alias = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(made);
    return make_storage(c10::DataPtr(block->ptr, block, &free_block, device), bytes);
  }
  DeviceScope scope(index);
  c10::DataPtr data = device_allocator().allocate(bytes);
  if (bytes > 0 && made->data() != nullptr) {
    std::memcpy(kernel_view(data.get()), made->data(), bytes);
  } else if (bytes > 0) {
    std::memset(kernel_view(data.get()), 0, bytes);  // a tensor of zeros that never had memory
  }
  return make_storage(std::move(data), bytes);
}

at::Tensor device_tensor(c10::Storage storage, const at::Tensor& like) {
  TORCH_CHECK_NOT_IMPLEMENTED(like.layout() == c10::kStrided, "results with layout ", like.layout(),
                              " are not available on ", OR_DEVICE_NAME);
  if (C10_UNLIKELY(like.is_quantized())) {
    return quantized_over(std::move(storage), like);
  }
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), like.dtype());
  c10::TensorImpl* impl = result.unsafeGetTensorImpl();
  const c10::TensorImpl* source = like.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(source->sizes(), source->strides(), source->storage_offset());
  if (C10_UNLIKELY(source->is_conj())) {
    impl->_set_conj(true);
  }
  if (C10_UNLIKELY(source->is_neg())) {
    impl->_set_neg(true);
  }
  return result;
}

bool follow(const at::Tensor& tensor, const at::Tensor& alias) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const c10::TensorImpl* twin = alias.unsafeGetTensorImpl();
  if (C10_UNLIKELY(tensor.is_quantized())) {
    follow_quantizer(tensor, alias);
  }
  impl->_set_neg(twin->is_neg());
  if (C10_UNLIKELY(impl->is_conj() != twin->is_conj())) {
    impl->_set_conj(twin->is_conj());
  }
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  c10::StorageImpl* seen = twin->unsafe_storage().unsafeGetStorageImpl();
  const bool moved = storage->data() != nullptr
                         ? seen->data() != kernel_view(const_cast<void*>(storage->data()))
                         : seen->data() != nullptr;
  if (C10_LIKELY(!moved && impl->sizes() == twin->sizes() && impl->strides() == twin->strides())) {
    return false;
  }
  if (moved) {
    // The kernel needed more memory than there was, and got it from the pool.
    if (Block* block = block_of(storage->data_ptr())) {
      block->alias.reset();  // it has gone with the kernel to other memory
    }
    c10::Storage grown = adopt(alias.storage(), storage->device().index());
    storage->set_data_ptr_noswap(std::move(grown.unsafeGetStorageImpl()->mutable_data_ptr()));
  }
  storage->set_nbytes(std::max(storage->nbytes(), seen->nbytes()));
  impl->set_sizes_and_strides(twin->sizes(), twin->strides(), twin->storage_offset());
  return true;
}

void AliasPlace::restore() const {
  if (left()) {
    storage->set_data_ptr_noswap(c10::DataPtr(const_cast<void*>(data), c10::Device(c10::kCPU)));
  }
  storage->set_nbytes(bytes);
}

}  // namespace openreg
