// What the runtime knows of memory: the live allocations of all devices and the pinned host ranges.
//
// Thread safety: everything may be called from any thread; look-ups share the lock.
#pragma once

#include "openreg/types.h"

#include <cstdint>
#include <map>
#include <shared_mutex>
#include <vector>

namespace openreg {

/// kImported: of another process, open here.
enum class AllocationKind { kDevice, kImported, kPinned, kRegistered };

struct Allocation {
  uintptr_t base = 0;
  size_t size = 0;     // as asked for
  size_t rounded = 0;  // as the driver gave it
  AllocationKind kind = AllocationKind::kDevice;
  int device = -1;
  bool freeing = false;  // claimed by a free that still waits; no longer alive to others
  bool named = false;    // for other processes

  bool on_device() const { return kind == AllocationKind::kDevice || kind == AllocationKind::kImported; }
};

/// What a pointer is. `known` is false for ordinary host memory.
struct PointerInfo {
  bool known = false;
  bool freed = false;  // was device memory once and is not in a live allocation: nobody may touch it
  Allocation allocation;
};

class Allocations {
 public:
  /// False if the range overlaps one that is there.
  [[nodiscard]] bool insert(const Allocation& allocation);
  PointerInfo find(const void* pointer) const;
  /// Begins to free the allocation that starts at `pointer` and is of the kind. Exactly one caller gets true;
  /// it ends with erase() or restore(). On false, `found` says what the pointer is instead.
  [[nodiscard]] bool claim(const void* pointer, AllocationKind kind, PointerInfo& found);
  void restore(const Allocation& allocation);
  /// False if a reset of the device was faster and has freed it already.
  [[nodiscard]] bool erase(const Allocation& allocation);
  /// Marks the live allocation at `base` as named for other processes.
  void mark_named(uintptr_t base);
  /// Memory of another process was opened, perhaps not for the first time. False if the range overlaps other
  /// memory.
  [[nodiscard]] bool insert_import(const Allocation& allocation);
  void erase_import(uintptr_t base);
  /// Forgets all memory of a device and returns what there was, but for what is imported: that stays.
  std::vector<Allocation> erase_device(int device);

 private:
  PointerInfo find_locked(uintptr_t address) const;
  bool overlaps(uintptr_t begin, uintptr_t end) const;
  void remember_device_range(uintptr_t begin, uintptr_t end);

  mutable std::shared_mutex mutex_;  // guards everything below
  std::map<uintptr_t, Allocation> live_;
  // Begin to end of every address that ever was device memory, merged: a stale device pointer must not be
  // mistaken for pageable host memory, since copying from it would fault.
  std::map<uintptr_t, uintptr_t> device_ranges_;
};

}  // namespace openreg
