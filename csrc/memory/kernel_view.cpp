#include "memory/kernel_view.h"

#include "common/check.h"
#include "device/device.h"
#include "memory/device_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/COWDeleter.h>

#include <optional>

namespace openreg {
namespace {

c10::Allocator& cpu_allocator() {
  return *c10::GetCPUAllocator();
}

c10::Allocator& (*alias_allocator)() = &cpu_allocator;

const std::optional<ptrdiff_t>& offset_if_any() {
  static const std::optional<ptrdiff_t> offset = []() -> std::optional<ptrdiff_t> {
    ptrdiff_t value = 0;
    const orError_t error = orGetKernelViewOffset(&value, current_device());
    if (error == orErrorNotSupported) {
      return std::nullopt;
    }
    OR_CHECK_RESULT(error, orGetKernelViewOffset);
    return value;
  }();
  return offset;
}

}  // namespace

void set_alias_allocator(c10::Allocator& (*allocator)()) {
  alias_allocator = allocator;
}

bool has_kernel_view() {
  return offset_if_any().has_value();
}

ptrdiff_t kernel_view_offset() {
  const std::optional<ptrdiff_t>& offset = offset_if_any();
  if (C10_UNLIKELY(!offset.has_value())) {
    ptrdiff_t none = 0;
    OR_CHECK(orGetKernelViewOffset(&none, current_device()));  // throws the driver's error
  }
  return *offset;
}

c10::intrusive_ptr<c10::StorageImpl> make_alias_storage(void* device_ptr, size_t bytes) {
  void* data = device_ptr == nullptr ? nullptr : kernel_view(device_ptr);
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                               c10::DataPtr(data, c10::Device(c10::kCPU)), &alias_allocator(),
                                               /*resizable=*/true);
}

void materialize_cow(c10::StorageImpl* device_storage) {
  if (C10_UNLIKELY(device_storage->data_ptr().get_deleter() == &c10::impl::cow::cow_deleter)) {
    device_storage->mutable_data_ptr();
  }
}

void check_has_memory(const c10::TensorImpl& tensor) {
  TORCH_CHECK(tensor.unsafe_storage().data() != nullptr || tensor.numel() == 0, "a tensor of shape ",
              tensor.sizes(), " on ", tensor.device(),
              " has a storage without memory; resize the storage before the tensor is used");
}

c10::intrusive_ptr<c10::StorageImpl> alias_of(const c10::TensorImpl& tensor, bool writes) {
  c10::StorageImpl* device_storage = tensor.unsafe_storage().unsafeGetStorageImpl();
  if (writes) {
    materialize_cow(device_storage);
  }
  if (const Block* block = block_of(device_storage->data_ptr());
      C10_LIKELY(block != nullptr && block->alias)) {
    return block->alias;
  }
  // Memory that is not from this allocator, for instance from_blob, or no memory.
  check_has_memory(tensor);
  return make_alias_storage(const_cast<void*>(device_storage->data_ptr().get()), device_storage->nbytes());
}

}  // namespace openreg
