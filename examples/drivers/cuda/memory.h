// Entries of the table: memory, copies and fills.
#pragma once

#include "openreg/driver.h"

namespace nv {

orError_t memory_alloc(int index, size_t size, void** ptr);
orError_t memory_free(int index, void* ptr, size_t size);
orError_t memory_info(int index, size_t* free, size_t* total);
orError_t host_alloc(size_t size, void** ptr);
orError_t host_free(void* ptr, size_t size);
orError_t stream_copy(orDriverStream* stream, void* dst, const void* src, size_t size, orMemcpyKind kind,
                      const orObserver* observer);
orError_t stream_fill(orDriverStream* stream, void* ptr, int value, size_t size, const orObserver* observer);

}  // namespace nv
