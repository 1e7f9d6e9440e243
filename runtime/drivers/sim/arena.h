// The memory of one device, mapped twice.
//
// Note [Device view and kernel view]
// All devices share one reserved address range. It begins with the device views of all devices: they stay
// inaccessible, and their addresses are the device pointers. The kernel views of all devices follow: the same
// bytes, readable and writable. The offset between the views is the same constant for all devices, so a
// kernel address is a device address plus this offset. The range is reserved when the first device opens and
// is never released. Each half ends with a window for memory of other processes, which has both views too.
//
// Note [Address space]
// The views of a device are larger than its memory. A block needs contiguous addresses but, as on a device
// with page tables, no contiguous memory: pages of freed blocks are returned, and new blocks get pages at
// their first use. So free memory can be allocated even if the blocks in use are scattered.
#pragma once

#include "blocks.h"
#include "openreg/error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace openreg::sim {

/// Reserves the range, once. Callers are serialized.
[[nodiscard]] orError_t reserve_views(int device_count, size_t memory);

/// Kernel-view address minus device-view address; 0 before the reservation.
ptrdiff_t view_offset();

/// The window for memory of other processes, as addresses of the device view. The range is reserved.
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

  // ---- For interprocess sharing, while it is open.
  size_t offset_of(const void* pointer) const {
    return static_cast<size_t>(static_cast<const char*>(pointer) - device_view_);
  }
  int backing() const { return backing_; }
  /// Unique in the process, also after resets of the device.
  uint64_t serial() const { return serial_; }

 private:
  int device_ = -1;
  size_t memory_ = 0;     // the limit of allocations
  size_t addresses_ = 0;  // the size of the view; see Note [Address space]
  char* device_view_ = nullptr;
  int backing_ = -1;
  uint64_t serial_ = 0;
  size_t free_memory() const { return memory_ - (addresses_ - blocks_->free()); }

  std::mutex mutex_;  // guards blocks_
  std::unique_ptr<Blocks> blocks_;
};

}  // namespace openreg::sim
