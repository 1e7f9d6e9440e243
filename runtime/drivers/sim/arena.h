// The memory of one device, mapped twice.
//
// Note [Two views]
// All devices share one reserved address range: first every device's device view, which stays inaccessible
// and whose addresses are the device pointers, then every device's kernel view, the same bytes readable and
// writable. The distance between the views is one constant for all devices, so a kernel finds its data by an
// addition. The range is reserved when the first device opens and kept for ever. Behind the devices' views is
// a window in which memory of other processes is opened, with two views as well.
#pragma once

#include "blocks.h"
#include "openreg/error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace openreg::sim {

/// Reserves the range if it is not yet. Callers are serialized.
[[nodiscard]] orError_t reserve_views(int device_count, size_t memory);

/// Kernel-view address minus device-view address; 0 before the reservation.
ptrdiff_t view_offset();

/// Where memory of other processes is opened: addresses of the device view. The range is reserved.
void import_window(char** begin, size_t* size);

class Arena {
 public:
  static constexpr size_t kGranularity = 512;

  /// The range is reserved.
  [[nodiscard]] orError_t open(int device, size_t memory);
  [[nodiscard]] orError_t close();

  [[nodiscard]] orError_t allocate(size_t size, void** pointer);
  void free(void* pointer, size_t size);
  size_t free_bytes();

  // ---- For other processes, while it is open.
  size_t offset_of(const void* pointer) const {
    return static_cast<size_t>(static_cast<const char*>(pointer) - device_view_);
  }
  int backing() const { return backing_; }
  /// No two arenas of a process have the same, however often a device is reset.
  uint64_t serial() const { return serial_; }

 private:
  int device_ = -1;
  size_t memory_ = 0;
  char* device_view_ = nullptr;
  int backing_ = -1;
  uint64_t serial_ = 0;
  std::mutex mutex_;  // guards blocks_
  std::unique_ptr<Blocks> blocks_;
};

}  // namespace openreg::sim
