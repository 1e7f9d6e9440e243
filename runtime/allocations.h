// Table of live allocations: memory of all devices, and pinned host ranges.
//
// Thread safety: all members may be called from any thread; lookups take a shared lock.
#pragma once

#include "openreg/types.h"

#include <cstdint>
#include <map>
#include <shared_mutex>
#include <vector>

namespace openreg {

/// kImported: memory of another process that is open here.
enum class AllocationKind { kDevice, kImported, kPinned, kRegistered };

struct Allocation {
  uintptr_t base = 0;
  size_t size = 0;     // as requested
  size_t rounded = 0;  // as allocated by the driver
  AllocationKind kind = AllocationKind::kDevice;
  int device = -1;
  bool freeing = false;  // a thread is freeing it; lookups no longer find it
  bool named = false;    // has interprocess handles

  bool on_device() const { return kind == AllocationKind::kDevice || kind == AllocationKind::kImported; }
};

/// Result of a lookup. `known` is false for pageable host memory.
struct PointerInfo {
  bool known = false;
  bool freed = false;  // a device address outside of live allocations; an access would fault
  Allocation allocation;
};

class Allocations {
 public:
  /// An address of freed device memory may become host memory, so that stale pointers cannot be recognized.
  void allow_address_reuse();
  /// Returns false if the range overlaps a live allocation.
  [[nodiscard]] bool insert(const Allocation& allocation);
  PointerInfo find(const void* pointer) const;
  /// Begins to free the allocation of this kind that starts at `pointer`. Exactly one caller gets true and
  /// must then call erase() or restore(). On false, `found` describes the pointer.
  [[nodiscard]] bool claim(const void* pointer, AllocationKind kind, PointerInfo& found);
  void restore(const Allocation& allocation);
  /// Returns false if a reset of the device has already freed it.
  [[nodiscard]] bool erase(const Allocation& allocation);
  /// Marks the live allocation at `base` as having interprocess handles.
  void mark_named(uintptr_t base);
  /// Adds memory of another process, unless it is already present. Returns false if the range overlaps other
  /// memory.
  [[nodiscard]] bool insert_import(const Allocation& allocation);
  void erase_import(uintptr_t base);
  /// Removes and returns all allocations of a device. Imported memory stays.
  std::vector<Allocation> erase_device(int device);

 private:
  PointerInfo find_locked(uintptr_t address) const;
  bool overlaps(uintptr_t begin, uintptr_t end) const;
  void remember_device_range(uintptr_t begin, uintptr_t end);

  mutable std::shared_mutex mutex_;  // guards everything below
  bool addresses_reused_ = false;
  std::map<uintptr_t, Allocation> live_;
  // Merged ranges (begin to end) of all addresses that were device memory at any time; empty if they may
  // become host memory. A stale device pointer must not be mistaken for pageable host memory: a copy from it
  // would fault.
  std::map<uintptr_t, uintptr_t> device_ranges_;
};

}  // namespace openreg
