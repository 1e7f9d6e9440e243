// Resizes storages.
#pragma once

#include <c10/core/StorageImpl.h>

namespace openreg {

/// Resizes the storage to `bytes` bytes, and copies the contents that fit, in the order of the current
/// stream.
void resize_storage(c10::StorageImpl* storage, size_t bytes);

}  // namespace openreg
