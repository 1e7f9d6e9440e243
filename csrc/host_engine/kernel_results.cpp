#include "host_engine/kernel_results.h"

#include "device/device.h"
#include "host_engine/kernel_allocator.h"
#include "layouts/quantized.h"
#include "memory/device_allocator.h"
#include "memory/kernel_view.h"
#include "storage/device_storage.h"

#include <algorithm>
#include <cstring>

namespace openreg {

c10::Storage take_ownership(const c10::Storage& made_by_kernel, c10::DeviceIndex index) {
  c10::StorageImpl* made = made_by_kernel.unsafeGetStorageImpl();
  const c10::Device device(kDevice, index);
  const size_t bytes = made->nbytes();
  if (Block* block = take_pool_block(made->mutable_data_ptr())) {
    made->set_data_ptr_noswap(c10::DataPtr(kernel_view(block->ptr), c10::Device(c10::kCPU)));
    block->alias = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(made);
    return make_storage(c10::DataPtr(block->ptr, block, &free_block, device), bytes);
  }
  DeviceScope scope(index);
  c10::DataPtr data = device_allocator().allocate(bytes);
  if (bytes > 0 && made->data() != nullptr) {
    std::memcpy(kernel_view(data.get()), made->data(), bytes);
  } else if (bytes > 0) {
    std::memset(kernel_view(data.get()), 0, bytes);  // a ZeroTensor has no memory
  }
  return make_storage(std::move(data), bytes);
}

at::Tensor device_tensor(c10::Storage storage, const at::Tensor& like) {
  TORCH_CHECK_NOT_IMPLEMENTED(like.layout() == c10::kStrided, "results with layout ", like.layout(),
                              " are not available on ", orGetDeviceName());
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

bool sync_metadata(const at::Tensor& tensor, const at::Tensor& alias) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const c10::TensorImpl* alias_impl = alias.unsafeGetTensorImpl();
  if (C10_UNLIKELY(tensor.is_quantized())) {
    sync_quantizer(tensor, alias);
  }
  impl->_set_neg(alias_impl->is_neg());
  if (C10_UNLIKELY(impl->is_conj() != alias_impl->is_conj())) {
    impl->_set_conj(alias_impl->is_conj());
  }
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  c10::StorageImpl* seen = alias_impl->unsafe_storage().unsafeGetStorageImpl();
  const bool moved = storage->data() != nullptr
                         ? seen->data() != kernel_view(const_cast<void*>(storage->data()))
                         : seen->data() != nullptr;
  if (C10_LIKELY(!moved && impl->sizes() == alias_impl->sizes() &&
                 impl->strides() == alias_impl->strides())) {
    return false;
  }
  if (moved) {
    // The kernel resized the alias to new memory from the pool.
    if (Block* block = block_of(storage->data_ptr())) {
      block->alias.reset();  // its storage now points to the new memory
    }
    c10::Storage grown = take_ownership(alias.storage(), storage->device().index());
    storage->set_data_ptr_noswap(std::move(grown.unsafeGetStorageImpl()->mutable_data_ptr()));
  }
  storage->set_nbytes(std::max(storage->nbytes(), seen->nbytes()));
  impl->set_sizes_and_strides(alias_impl->sizes(), alias_impl->strides(), alias_impl->storage_offset());
  return true;
}

}  // namespace openreg
