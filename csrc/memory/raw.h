// Device memory for code that has no tensors: an address, cached and ordered as that of tensors.
//
// Thread safety: all functions, from any thread.
#pragma once

#include "common/export.h"

#include <c10/core/Stream.h>

namespace openreg {

/// Memory for the stream, on its device. Zero bytes give NULL.
OPENREG_EXPORT void* raw_allocate(size_t bytes, c10::Stream stream);

/// Throws ValueError if the address is not one that raw_allocate gave, or was given back already.
OPENREG_EXPORT void raw_delete(void* ptr);

}  // namespace openreg
