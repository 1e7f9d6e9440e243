// One piece of device memory: handed out, cached or free.
//
// Note [Aliases]
// The simulated device's kernels are PyTorch's own CPU kernels. They run on aliases: CPU tensors whose
// storage is the kernel view of the same memory. A block keeps the CPU storage for that from one use to the
// next, so making an alias is a pointer copy. The alias does not own the memory: work that is still to run
// does not keep it alive.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <memory>

namespace openreg {

struct PrivatePool;

struct Block {
  void* ptr = nullptr;  // as tensors carry it: out of the host's reach
  size_t size = 0;
  size_t requested = 0;
  c10::DeviceIndex device = 0;
  c10::StreamId stream = 0;     // the stream that may reuse it at once
  PrivatePool* home = nullptr;  // where it returns to; NULL: the ordinary pool
  bool small = false;           // of a segment for small blocks
  bool shared = false;          // other processes may have it; see csrc/process/share.h
  bool in_use = false;          // handed out
  bool free = false;            // in the tree of free blocks, where neighbors merge
  Block* before = nullptr;      // neighbors in the segment
  Block* after = nullptr;
  Block* next_cached = nullptr;
  uint64_t idle_since = 0;  // the pool's clock when it went into the tree
  c10::intrusive_ptr<c10::StorageImpl> alias;
  c10::SmallVector<c10::Stream, 1> used_by;       // other streams, from record_stream
  std::shared_ptr<c10::GatheredContext> context;  // where it was allocated, while history is recorded

  bool is_whole_segment() const { return before == nullptr && after == nullptr; }
};

}  // namespace openreg
