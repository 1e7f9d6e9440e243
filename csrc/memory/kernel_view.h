// The kernel view: where a kernel finds the bytes of a device pointer.
//
// A block keeps the CPU storage of its alias (see Note [Aliases] in block.h), which is why this is here and
// not in kernel/. Thread safety: all functions, from any thread.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstddef>

namespace openreg {

/// The distance from a device pointer to the kernel view of the same byte; one for all devices, for ever.
ptrdiff_t kernel_view_offset();

inline void* kernel_view(void* device_ptr) {
  return static_cast<char*>(device_ptr) + kernel_view_offset();
}

/// Where an alias that a kernel resizes gets its memory: PyTorch's CPU allocator, unless this is called
/// first.
void set_alias_allocator(c10::Allocator& (*allocator)());

/// A CPU storage over the kernel view of device memory that it does not own.
c10::intrusive_ptr<c10::StorageImpl> make_alias_storage(void* device_ptr, size_t bytes);

/// A copy-on-write storage gets memory of its own, on its device.
void materialize_cow(c10::StorageImpl* device_storage);

/// The alias of a device storage. `writes`: a kernel will write through it.
c10::intrusive_ptr<c10::StorageImpl> alias_of(c10::StorageImpl* device_storage, bool writes);

}  // namespace openreg
