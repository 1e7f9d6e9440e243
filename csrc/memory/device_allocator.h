// Device memory for tensors: what torch asks, answered by one pool for each device.
//
// Thread safety: all functions, from any thread.
#pragma once

#include "common/export.h"
#include "memory/block.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace openreg {

class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  /// Memory on the current device for its current stream. Opens the device.
  c10::DataPtr allocate(size_t bytes) override;
  /// The same as a block, for those who make the DataPtr themselves. `bytes` is not zero.
  Block* allocate_block(c10::DeviceIndex device, size_t bytes);

  bool initialized() override;
  void emptyCache(c10::MempoolId_t pool = {0, 0}) override;
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;

  bool is_simple_data_ptr(const c10::DataPtr& data) const override;
  void copy_data(void* dst, const void* src, size_t bytes) const override;
};

/// The one allocator. Never destroyed.
OPENREG_EXPORT DeviceAllocator& device_allocator();

/// Gives a block back: the deleter of every DataPtr whose context is a Block.
void free_block(void* block);

/// The same by its address, for memory that was lazily cloned; see is_simple_data_ptr.
void free_by_address(void* ptr);
Block* block_at(void* ptr);

/// The block that owns the memory of `data`, or NULL if it did not come from this allocator.
inline Block* block_of(const c10::DataPtr& data) {
  if (C10_LIKELY(data.get_deleter() == &free_block)) {
    return static_cast<Block*>(data.get_context());
  }
  return C10_UNLIKELY(data.get_deleter() == &free_by_address) ? block_at(data.get_context()) : nullptr;
}

/// Makes the storage of a new block known to its alias; see Note [Aliases] in block.h.
void refresh_alias(Block* block, size_t bytes);

}  // namespace openreg
