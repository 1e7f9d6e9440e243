// The allocator of a storage: memory of one device, whichever device is current.
//
// c10 asks a storage's allocator, and tells it nothing but a number of bytes, when a copy-on-write storage
// (torch._lazy_clone) gets memory of its own. That may happen anywhere, also where no guard has made the
// storage's device the current one: tensor.data_ptr() is enough.
//
// Thread safety: all functions, from any thread.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

namespace openreg {

/// The allocator for storages of that device. Never destroyed.
c10::Allocator& storage_allocator(c10::DeviceIndex device);

}  // namespace openreg
