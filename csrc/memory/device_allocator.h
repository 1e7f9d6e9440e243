// The device allocator of torch, over one caching pool per device.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "common/export.h"
#include "memory/pool/block.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace openreg {

class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  /// Allocates on the current device, for its current stream. Opens the device.
  c10::DataPtr allocate(size_t bytes) override;
  /// As allocate, but returns the block, for callers that create the DataPtr themselves. `bytes` must not be
  /// zero.
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

/// The singleton. Never destroyed.
OPENREG_EXPORT DeviceAllocator& device_allocator();

/// Frees a block: the deleter of every DataPtr whose context is a Block.
void free_block(void* block);

/// The block at that address if its memory was lazily cloned, else NULL; see is_simple_data_ptr.
Block* block_at(void* ptr);

/// The block of lazily cloned memory, whether or not it is still shared; else NULL.
Block* lazily_cloned_block(const c10::DataPtr& data);

/// The block of the memory of `data`, or NULL if the memory is not from this allocator. Copy-on-write
/// storages of the same memory have the same block.
inline Block* block_of(const c10::DataPtr& data) {
  if (C10_LIKELY(data.get_deleter() == &free_block)) {
    return static_cast<Block*>(data.get_context());
  }
  return lazily_cloned_block(data);
}

/// Prepares the alias of a newly allocated block for `bytes` bytes; see Note [Aliases] in block.h.
void refresh_alias(Block* block, size_t bytes);

}  // namespace openreg
