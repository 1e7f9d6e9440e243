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
// blocks ordered by size, in which neighbors merge; a list is emptied into the tree only when nothing else
// serves a request. Large blocks use the tree alone.
//
// Note [What is given back]
// Segments whose blocks are all free return to the runtime when somebody asks (empty_cache), when more than
// the threshold of the settings is reserved (the longest idle first), and when there is nothing left: then
// the pool waits for the device, gives back all that it can, and tries once more before it throws.
//
// Private pools (Note in mempool_routing.h) have caches of their own; a block knows where it belongs. While a
// stream is captured into a graph, blocks that record_stream has named are kept until it has ended: an event
// recorded meanwhile would be part of the graph.
//
// Thread safety: every member function locks the pool's one mutex. It is not held while the runtime frees
// memory, which waits for kernels, which may allocate; nor while a stack is taken, which may need Python's
// lock.
#pragma once

#include "common/export.h"
#include "memory/pool/block.h"
#include "memory/pool/history.h"
#include "memory/pool/settings.h"
#include "memory/pool/stats.h"

#include <openreg/openreg.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

namespace openreg {

/// What a pool has, and what happened to it.
struct PoolSnapshot {
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments;  // by address
  std::vector<TraceEntry> history;
};

class OPENREG_EXPORT Pool {
 public:
  Pool(c10::DeviceIndex device, Settings settings)
      : device_(device), settings_(std::move(settings)), history_(device) {}

  /// A block for `stream`, from a private pool or, if that does not exist, the ordinary one. Throws
  /// OutOfMemoryError after everything cached was given back in vain.
  Block* allocate(size_t bytes, c10::StreamId stream, c10::MempoolId_t from = {0, 0});
  void free(Block* block) noexcept;

  /// The block is not reused before `stream`, of whatever device, has passed the point of its free.
  void record_stream(Block* block, c10::Stream stream);

  /// Gives back to the runtime what is cached and is a whole segment: of one pool, or by default of the
  /// ordinary one and of private ones without users. Throws while a capture is in the way.
  void empty_cache(c10::MempoolId_t of = {0, 0});

  /// See mempool_routing.h.
  void use_private(c10::MempoolId_t id);
  void release_private(c10::MempoolId_t id) noexcept;
  int private_users(c10::MempoolId_t id);

  // ---- How it works

  void configure(const Settings& settings);
  /// The pool reserves at most this part of the device's memory.
  void set_memory_fraction(double fraction);
  double memory_fraction();
  /// Without caching, every block has a segment of its own that goes back to the runtime when it is freed.
  /// What is cached stays so until the next free, or empty_cache.
  void set_caching(bool caching);

  // ---- What it knows; pool_report.cpp

  DeviceStats stats();
  void reset_peak_stats();
  void reset_accumulated_stats();
  void record_history(const HistoryOptions& options, bool clear);
  PoolSnapshot snapshot(bool with_history);

 private:
  static constexpr size_t kGranularity = Settings::kGranularity;
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

  using Caches = std::unordered_map<c10::StreamId, std::unique_ptr<Cache>>;
  friend struct PrivatePool;

  // A freed block that other streams may still use.
  struct Waiting {
    Block* block;
    std::vector<void*> events;
  };

  // What the runtime gave in one piece.
  struct Segment {
    Block* first;
    size_t size;
    Context context;
  };

  using Lock = std::unique_lock<std::mutex>;

  PrivatePool* find_private(c10::MempoolId_t id);
  Cache& cache_of(c10::StreamId stream, PrivatePool* home);
  size_t rounded(size_t bytes) const;
  Block* take(Cache& cache, size_t size);
  Block* take_from_tree(Cache& cache, size_t size);
  void split(Cache& cache, Block* block, size_t size);
  void retire(Block* block);
  void put_into_tree(Cache& cache, Block* block);
  void absorb_after(Block* block);
  void empty_lists(Cache& cache);
  void wait_for_other_streams(Block* block);
  bool retire_if_passed(const Waiting& waiting);
  void collect();
  void count_idle(const Block* block);
  void count_not_idle(const Block* block);

  // ---- Segments; pool_segments.cpp

  Block* new_segment(Cache& cache, c10::StreamId stream, PrivatePool* home, size_t size, size_t asked,
                     const Context& context, Lock& lock);
  orError_t reserve(void** ptr, size_t length);
  size_t segment_length(size_t size, bool sparing) const;
  size_t limit();
  void collect_garbage(size_t coming, Lock& lock);
  std::vector<Block*> take_whole_segments(c10::MempoolId_t of = {0, 0});
  void remember_segment(Block* block, const Context& context);
  void forget_segments(const std::vector<Block*>& segments);
  void give_back(const std::vector<Block*>& segments, Lock& lock);
  void wait_for_those_who_give_back(Lock& lock);
  void report_to_profiler(const Block* block, int sign) const;
  size_t largest_free() const;
  void forget_old_pools();
  [[noreturn]] void throw_out_of_memory(size_t asked, size_t length, const Context& context);

  const c10::DeviceIndex device_;
  std::mutex mutex_;  // guards everything below, and the members of this device's blocks
  Settings settings_;
  History history_;
  Caches caches_;
  std::map<c10::MempoolId_t, std::unique_ptr<PrivatePool>> private_;
  Cache* latest_ = nullptr;  // of latest_stream_, to spare the look-up
  c10::StreamId latest_stream_ = 0;
  std::map<void*, Segment> segments_;
  std::deque<Waiting> waiting_;   // oldest first
  std::vector<Block*> deferred_;  // freed during a capture; then they wait as the others
  int giving_back_ = 0;           // threads that are giving segments back
  std::condition_variable given_back_;
  DeviceStats stats_;
  bool caching_ = true;
  double fraction_ = 1;
  uint64_t clock_ = 0;  // counts new segments
};

struct PrivatePool {
  c10::MempoolId_t id;
  int users = 0;
  int segments = 0;
  Pool::Caches caches{};
};

/// The number of a private pool; {0, 0} for none, which is the ordinary one.
inline c10::MempoolId_t id_of(const PrivatePool* pool) {
  return pool == nullptr ? c10::MempoolId_t{0, 0} : pool->id;
}

/// The pool of a device. Never destroyed. Throws ValueError if OPENREG_ALLOC_CONF makes no sense.
OPENREG_EXPORT Pool& pool_of(c10::DeviceIndex device);

}  // namespace openreg
