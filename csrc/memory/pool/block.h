// A block of device memory: allocated, cached or free.
//
// Note [Aliases]
// The simulated device's kernels are PyTorch's CPU kernels. They run on aliases: CPU tensors whose storage is
// the kernel view of the same memory. A block caches the CPU storage of its alias across uses, so creating an
// alias is a pointer copy. The alias does not own the memory: pending kernels do not keep it alive.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <memory>

namespace openreg {

struct PrivatePool;
namespace memory_check {
class Region;
}

struct Block {
  void* ptr = nullptr;  // the device address, as in tensors; the host cannot access it
  size_t size = 0;
  size_t requested = 0;
  c10::DeviceIndex device = 0;
  c10::StreamId stream = 0;     // may reuse the block without synchronization
  PrivatePool* home = nullptr;  // the pool that owns it; NULL: the default pool
  bool small = false;           // in a segment for small blocks
  bool shared = false;          // other processes may use it; see csrc/process/share.h
  bool in_use = false;          // allocated
  bool free = false;            // in the tree of free blocks, where adjacent blocks merge
  Block* before = nullptr;      // adjacent blocks in the segment
  Block* after = nullptr;
  Block* next_cached = nullptr;
  memory_check::Region* region = nullptr;  // its pages, with the memory check; `ptr` is then inside of them
  uint64_t capture = 0;     // the ID of the capture in which it was allocated; 0: outside of a capture
  uint64_t idle_since = 0;  // the pool's clock when it was inserted into the tree
  uint64_t allocation = 0;  // the number of the allocation, if it was recorded; see Pool::allocations_since
  c10::intrusive_ptr<c10::StorageImpl> alias;
  c10::SmallVector<c10::Stream, 1> used_by;       // other streams, from record_stream
  std::shared_ptr<c10::GatheredContext> context;  // stack trace of the allocation, while history is recorded

  bool is_whole_segment() const { return before == nullptr && after == nullptr; }
};

}  // namespace openreg
