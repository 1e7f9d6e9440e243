// The kernel view: the addresses at which kernels access device memory.
//
// A block caches the CPU storage of its alias (see Note [Aliases] in block.h), so this belongs to memory/ and
// not to kernel/. Thread safety: all functions may be called from any thread.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>

namespace openreg {

/// False if the driver cannot run host code as a kernel (OR_CAP_HOST_EXECUTABLE). Blocks then have no alias.
bool has_kernel_view();

/// The offset from a device pointer to its kernel-view address; constant, and the same for all devices.
/// Throws without a kernel view.
ptrdiff_t kernel_view_offset();

inline void* kernel_view(void* device_ptr) {
  return static_cast<char*>(device_ptr) + kernel_view_offset();
}

/// Sets the allocator for aliases that a kernel resizes. Default: PyTorch's CPU allocator.
void set_alias_allocator(c10::Allocator& (*allocator)());

/// A CPU storage over the kernel view of device memory, without ownership.
c10::intrusive_ptr<c10::StorageImpl> make_alias_storage(void* device_ptr, size_t bytes);

/// Gives a copy-on-write storage its own memory, on its device.
void materialize_cow(c10::StorageImpl* device_storage);

/// Throws if the tensor has elements and its storage has no memory: a storage can be resized to 0 bytes.
void check_has_memory(const c10::TensorImpl& tensor);

/// The alias of the storage of a device tensor, which must have memory. `writes`: a kernel will write through
/// it.
c10::intrusive_ptr<c10::StorageImpl> alias_of(const c10::TensorImpl& tensor, bool writes);

}  // namespace openreg
