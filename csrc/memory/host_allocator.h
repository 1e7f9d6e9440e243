// Pinned host memory: PyTorch's caching host allocator over orMallocHost.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "common/export.h"

#include <ATen/core/CachingHostAllocator.h>

namespace openreg {

/// The singleton. Never destroyed.
OPENREG_EXPORT at::HostAllocator& host_allocator();

/// Whether the pointer is in pinned memory. Opens no device.
bool is_pinned(const void* ptr);

}  // namespace openreg
