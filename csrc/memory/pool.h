// The memory of one device, cached in stream order.
//
// Note [Stream order]
// A freed block is at once reusable by the stream it was allocated on, since work there runs in order.
// Streams that record_stream named must have passed the point of the free first; until then the block waits
// with an event for each of them.
//
// Note [Two levels]
// Small blocks (up to 1 MiB) that are freed go to a list for their exact size, last in, first out: the next
// request of that size costs two pointer writes and gets warm memory. Below the lists is a tree of free
// blocks ordered by size, in which neighbours merge; a list is emptied into the tree only when nothing else
// serves a request. Large blocks use the tree alone.
//
// Thread safety: every member function locks the pool's one mutex. It is not held while the runtime frees
// memory, which waits for kernels, which may allocate.
#pragma once

#include "memory/block.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <array>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

namespace openreg {

using c10::CachingDeviceAllocator::DeviceStats;

class Pool {
 public:
  explicit Pool(c10::DeviceIndex device) : device_(device) {}

  /// A block for `stream`. Throws OutOfMemoryError after everything cached was given back in vain.
  Block* allocate(size_t bytes, c10::StreamId stream);
  void free(Block* block);

  /// The block is not reused before `stream` has passed the point of its free.
  void record_stream(Block* block, c10::StreamId stream);

  /// Gives back to the runtime what is cached and is a whole segment.
  void empty_cache();

  DeviceStats stats();
  void reset_peak_stats();
  void reset_accumulated_stats();

 private:
  static constexpr size_t kGranularity = 512;
  static constexpr size_t kLargestSmall = size_t{1} << 20;

  struct BySize {
    using is_transparent = void;
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->ptr < b->ptr;
    }
    bool operator()(const Block* a, size_t size) const { return a->size < size; }
    bool operator()(size_t size, const Block* a) const { return size < a->size; }
  };
  using Tree = std::set<Block*, BySize>;

  // What one stream has freed and may take again without asking anybody.
  struct Cache {
    std::array<Block*, kLargestSmall / kGranularity + 1> lists{};
    Tree small;
    Tree large;
    Tree& tree(bool is_small) { return is_small ? small : large; }
  };

  // A freed block that other streams may still use.
  struct Waiting {
    Block* block;
    std::vector<void*> events;
  };

  Cache& cache_of(c10::StreamId stream);
  Block* take(Cache& cache, size_t size);
  Block* take_from_tree(Cache& cache, size_t size);
  Block* new_segment(c10::StreamId stream, size_t size, size_t asked, std::unique_lock<std::mutex>& lock);
  void split(Cache& cache, Block* block, size_t size);
  void retire(Block* block);
  void put_into_tree(Cache& cache, Block* block);
  void merge_neighbour(Tree& tree, Block* block, Block* neighbour);
  void empty_lists(Cache& cache);
  void wait_for_other_streams(Block* block);
  void collect();
  std::vector<Block*> take_whole_segments();
  void give_back(const std::vector<Block*>& segments);
  void report_to_profiler(const Block* block, int sign) const;
  [[noreturn]] void throw_out_of_memory(size_t asked);

  const c10::DeviceIndex device_;
  std::mutex mutex_;  // guards everything below, and the members of this device's blocks
  std::unordered_map<c10::StreamId, std::unique_ptr<Cache>> caches_;
  Cache* latest_ = nullptr;  // of latest_stream_, to spare the look-up
  c10::StreamId latest_stream_ = 0;
  std::vector<Waiting> waiting_;
  DeviceStats stats_;
};

}  // namespace openreg
