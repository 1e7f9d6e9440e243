// Device memory for code without tensors: plain pointers from the caching pool, in stream order.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "common/export.h"
#include "memory/pool/block.h"

#include <c10/core/Stream.h>

namespace openreg {

/// Allocates on the stream's device, for that stream. Returns NULL for zero bytes.
OPENREG_EXPORT void* raw_allocate(size_t bytes, c10::Stream stream);

/// A block in use without an owner becomes a raw allocation.
void add_raw(Block* block);

/// Removes and returns the block of a raw allocation; NULL if there is none.
Block* take_raw(void* ptr);

/// Whether it is the pointer of a raw allocation.
bool is_raw(void* ptr);

/// Throws ValueError if this is not the pointer of a raw allocation, or it was already deleted.
OPENREG_EXPORT void raw_delete(void* ptr);

}  // namespace openreg
