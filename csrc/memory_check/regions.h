// All regions, by address.
//
// Thread safety: all functions may be called from any thread, also in a handler of a fault that is not in
// this folder. Lock order: the lock of a region, then that of the list of regions.
#pragma once

#include "memory_check/region.h"

#include <cstddef>
#include <cstdint>

namespace openreg::memory_check {

/// Adds the memory of the runtime at `base`, see Region::set. The result is valid until remove_region.
Region* add_region(void* base, size_t length, size_t size, ptrdiff_t view_offset, bool unused);
/// Before the memory returns to the runtime: makes it accessible. The object is used again.
void remove_region(Region* region);

/// The region that contains an address of the kernel view; NULL if there is none.
Region* region_at(uintptr_t address);
/// Whether an address is near a region. Takes no lock.
bool may_be_in_region(uintptr_t address);

/// False if the system has too many mappings.
bool pages_are_protected();
/// Makes all pages accessible, and says so once. `reason` is an errno.
void stop_protecting_pages(int reason);

}  // namespace openreg::memory_check
