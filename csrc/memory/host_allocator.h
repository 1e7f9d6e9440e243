// Pinned host memory: PyTorch's caching host allocator over orMallocHost.
//
// Thread safety: all functions, from any thread.
#pragma once

#include "common/export.h"

#include <ATen/core/CachingHostAllocator.h>

namespace openreg {

/// The one allocator. Never destroyed.
OPENREG_EXPORT at::HostAllocator& host_allocator();

/// True if the pointer lies in pinned memory. Opens no device.
bool is_pinned(const void* ptr);

}  // namespace openreg
