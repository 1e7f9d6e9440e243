// The allocator of a storage: allocates on one device, whichever device is current.
//
// When a copy-on-write storage (torch._lazy_clone) is materialized, c10 calls the storage's allocator with
// nothing but the number of bytes. That may happen where no guard has set the storage's device, for instance
// in tensor.data_ptr().
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

namespace openreg {

/// The allocator for storages of that device. Never destroyed.
c10::Allocator& storage_allocator(c10::DeviceIndex device);

}  // namespace openreg
