// Storages that change their size.
#pragma once

#include <c10/core/StorageImpl.h>

namespace openreg {

/// Gives the storage `bytes` bytes, and keeps what fits of the contents, in the order of the current stream.
void resize_storage(c10::StorageImpl* storage, size_t bytes);

}  // namespace openreg
