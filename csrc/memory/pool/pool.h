// The caching allocator of one device.
//
// Note [Stream order]
// The stream that a block was allocated on may reuse it immediately after the free, because work on one
// stream runs in order. Streams named by record_stream must first reach the point of the free; until then,
// the block is pending with one event per stream.
//
// Note [Two-level cache]
// Freed small blocks (up to 1 MiB) go to a list for their exact size, last in, first out: the next request of
// that size costs two pointer writes and gets memory that is warm in the CPU cache. Below the lists is a tree
// of free blocks ordered by size, in which adjacent blocks merge. The lists are emptied into the tree only
// when no other block serves a request. Large blocks use only the tree.
//
// Note [Releasing segments]
// Segments whose blocks are all free are returned to the runtime by empty_cache; when the reserved memory
// exceeds garbage_collection_threshold (longest idle first); and when the device is out of memory. In the
// last case the pool synchronizes the device, releases all free segments, and retries once before it throws.
//
// Note [Checkpoints]
// A checkpoint has the blocks of a private pool at one time. A restore makes them the blocks of the pool
// again. This is for several graphs of one pool: before the second graph is captured, the memory that the
// first graph's outputs occupy is marked as in use, although no tensor owns it. The caller names the storages
// that lose their memory, and the storages that get an owner.
//
// Private pools (Note [Private pools] in mempool_routing.h) have their own caches; a block records its pool.
//
// Note [Memory of captures]
// While a stream is captured into a graph, freed blocks with record_stream streams are deferred until the
// capture has ended: an event recorded during the capture would not complete. With the setting
// graph_capture_record_stream_reuse, a deferred block that was allocated in this capture is free earlier:
// when its stream has joined the streams that used it, so that the next work of its stream follows theirs in
// the graph. Other blocks may also be used by work outside of the graph.
//
// Note [Checked blocks]
// With the memory check (memory_check/memory_check.h) each block has a segment of its own, with guard pages.
// While it is cached, `ptr` is the beginning of the segment; while it is in use, the data of the tensor,
// whose place depends on the number of bytes. Freed blocks of the default pool are sealed, and wait in the
// quarantine, oldest first, until it has more bytes than its limit. The quarantine is emptied before the
// device is out of memory. Statistics count it as cached memory, and the pages around a block as reserved.
//
// Thread safety: every member function locks the pool's mutex. The mutex is not held while the runtime frees
// memory, which waits for kernels, which may allocate; nor while a stack trace is captured, which may take
// the GIL.
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
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace openreg {

/// Memory in use that was allocated while the history was recorded.
struct LiveAllocation {
  uint64_t number;
  void* ptr;
  size_t requested;
  Context context;  // may be NULL
};

/// The segments of a pool and its allocation history.
struct PoolSnapshot {
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments;  // by address
  std::vector<TraceEntry> history;
};

/// See Note [Checkpoints].
struct PoolCheckpoint {
  struct BlockState {
    void* ptr;
    size_t size;
    size_t requested;
    bool in_use;
    bool merged;  // as Block::free
  };
  struct SegmentState {
    uint64_t id = 0;
    std::vector<BlockState> blocks{};  // by address
  };
  c10::MempoolId_t pool;
  std::map<void*, SegmentState> segments;  // by address
};

/// Called for each allocation that fails, without a lock: the device, the requested bytes, the limit of the
/// pool, and the free memory of the device.
using OutOfMemoryObserver =
    std::function<void(c10::DeviceIndex device, size_t requested, size_t limit, size_t free)>;
/// Observers are never removed, as in torch.cuda.
OPENREG_EXPORT void add_out_of_memory_observer(OutOfMemoryObserver observer);

class OPENREG_EXPORT Pool {
 public:
  Pool(c10::DeviceIndex device, Settings settings)
      : device_(device), settings_(std::move(settings)), history_(device) {}

  /// Allocates a block for `stream` from a private pool, or from the default pool if the private pool does
  /// not exist. Throws OutOfMemoryError if releasing all cached memory was not enough.
  Block* allocate(size_t bytes, c10::StreamId stream, c10::MempoolId_t from = {0, 0});
  void free(Block* block) noexcept;

  /// Defers reuse of the block until `stream`, of any device, has reached the point of the free.
  void record_stream(Block* block, c10::Stream stream);

  /// Returns cached whole segments to the runtime: those of one pool, or by default those of the default pool
  /// and of private pools without users. Throws if a capture on the device forbids it.
  void empty_cache(c10::MempoolId_t of = {0, 0});

  /// See mempool_routing.h.
  void use_private(c10::MempoolId_t id);
  void configure_private(c10::MempoolId_t id, const PrivateSettings& settings);
  void release_private(c10::MempoolId_t id) noexcept;
  int private_users(c10::MempoolId_t id);

  // ---- Checkpoints of private pools; pool_checkpoint.cpp. These throw ValueError if the pool does not
  // exist.

  PoolCheckpoint checkpoint(c10::MempoolId_t id);
  /// Restores a checkpoint. `stale`: addresses of blocks in use whose owners will not free them any more.
  /// Returns the blocks that were not in use, or are stale, and are in use in the checkpoint: they have no
  /// owner. Throws, and changes nothing, if a block that would become free is in use and not stale, if other
  /// streams still use a stale block, or if a segment of the checkpoint was released.
  std::vector<Block*> restore(const PoolCheckpoint& checkpoint, const std::unordered_set<void*>& stale);
  /// Whether a block of the pool at this address is in use.
  bool is_in_use(c10::MempoolId_t id, void* ptr);
  /// Whether the blocks in use are those at the given addresses.
  bool has_live_allocations(c10::MempoolId_t id, const std::unordered_set<void*>& expected);

  // ---- Configuration

  void configure(const Settings& settings);
  /// Limits the pool to this fraction of the device's memory.
  void set_memory_fraction(double fraction);
  double memory_fraction();
  /// Without caching, every block has its own segment, which is returned to the runtime when the block is
  /// freed. Memory that is already cached stays cached until the next free, or empty_cache.
  void set_caching(bool caching);

  // ---- Statistics and snapshots; pool_report.cpp

  DeviceStats stats();
  void reset_peak_stats();
  void reset_accumulated_stats();
  void record_history(const HistoryOptions& options, bool clear);
  PoolSnapshot snapshot(bool with_history);
  /// The recorded stack of the allocation that starts at `ptr`; NULL if there is none.
  Context allocation_context(void* ptr);
  bool records_history() const { return history_.on(); }
  /// The number of allocations that were made while the history was recorded.
  uint64_t recorded_allocations();
  /// The memory in use that was allocated after the recorded allocation with this number, oldest first.
  std::vector<LiveAllocation> allocations_since(uint64_t number);

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

  // Blocks that one stream has freed and may reuse without synchronization.
  struct Cache {
    std::array<Block*, kLargestSmall / kGranularity + 1> lists{};
    Tree small;
    Tree large;
    Tree& tree(bool is_small) { return is_small ? small : large; }
  };

  using Caches = std::unordered_map<c10::StreamId, std::unique_ptr<Cache>>;
  friend struct PrivatePool;

  // A freed block that other streams may still use, with the events that must complete, or must precede the
  // next work of a captured stream.
  struct Waiting {
    Block* block;
    std::vector<void*> events;
  };

  // One allocation of the runtime (orMalloc).
  struct Segment {
    Block* first;
    size_t size;
    uint64_t id;  // unique in the pool; a later segment may have the same address
    Context context;
  };

  using Lock = std::unique_lock<std::mutex>;

  PrivatePool* find_private(c10::MempoolId_t id);
  Cache& cache_of(c10::StreamId stream, PrivatePool* home);
  size_t rounded(size_t bytes) const;
  Block* take(Cache& cache, size_t size);
  Block* take_from_tree(Cache& cache, size_t size);
  Block* make_block(void* ptr, size_t size, c10::StreamId stream, PrivatePool* home, bool small) const;
  void split(Cache& cache, Block* block, size_t size);
  void retire(Block* block);
  void put_into_cache(Block* block);
  void put_into_tree(Cache& cache, Block* block);
  void merge_with_next(Block* block);
  void empty_lists(Cache& cache);
  void wait_for_other_streams(Block* block);
  void defer(Block* block);
  bool retire_if_joined(const Waiting& deferred);
  void retire_oldest();
  bool retire_if_passed(const Waiting& waiting);
  void collect();
  void count_allocated(const Block* block);
  void count_freed(const Block* block);
  void count_retired(const Block* block);
  void count_idle(const Block* block);
  void count_not_idle(const Block* block);

  // ---- The memory check; pool_check.cpp

  void quarantine(Block* block);
  void empty_quarantine(size_t limit = 0);
  void seal_freed(Lock& lock) noexcept;

  // ---- Checkpoints; pool_checkpoint.cpp

  PrivatePool& settled_private(c10::MempoolId_t id);
  template <typename Function>
  void for_each_block(const PrivatePool& pool, Function function);
  void check_restorable(const PrivatePool& pool, const PoolCheckpoint& checkpoint,
                        const std::unordered_set<void*>& stale);
  void drop_cached(Cache& cache);
  void restore_segment(Segment& segment, const std::vector<PoolCheckpoint::BlockState>& states,
                       const std::unordered_set<void*>& stale, std::vector<Block*>& unowned);
  void check_no_other_stream_uses(const Block* block);

  // ---- Segments; pool_segments.cpp

  Block* take_from_private(c10::StreamId stream, size_t size);
  Block* new_segment(Cache& cache, c10::StreamId stream, PrivatePool* home, size_t size, size_t requested,
                     const Context& context, Lock& lock);
  orError_t reserve(void** ptr, size_t length);
  size_t segment_length(size_t size, bool minimal) const;
  size_t limit();
  void collect_garbage(size_t coming, Lock& lock);
  std::vector<Block*> take_whole_segments(c10::MempoolId_t of = {0, 0});
  void track_segment(Block* block, const Context& context);
  void untrack_segments(const std::vector<Block*>& segments);
  void release_segments(const std::vector<Block*>& segments, Lock& lock);
  void wait_for_releasing_threads(Lock& lock);
  void report_to_profiler(const Block* block, int sign) const;
  size_t largest_free() const;
  void remove_stats_of_old_pools();
  [[noreturn]] void throw_out_of_memory(size_t requested, size_t length, const Context& context, Lock& lock);

  const c10::DeviceIndex device_;
  std::mutex mutex_;  // guards everything below, and the members of this device's blocks
  Settings settings_;
  History history_;
  Caches caches_;
  std::map<c10::MempoolId_t, std::unique_ptr<PrivatePool>> private_;
  Cache* latest_ = nullptr;  // the cache of latest_stream_; avoids a lookup
  c10::StreamId latest_stream_ = 0;
  std::map<void*, Segment> segments_;
  std::deque<Waiting> waiting_;   // oldest first
  std::deque<Waiting> deferred_;  // freed during a capture; move to waiting_ after it
  struct Freed {
    memory_check::Region* region;
    uint64_t use;
    c10::StreamId stream;
  };
  std::deque<Block*> quarantine_;  // oldest first
  size_t quarantined_bytes_ = 0;
  std::vector<Freed> freed_;   // to be sealed
  int releasing_threads_ = 0;  // threads that are releasing segments
  std::condition_variable segments_released_;
  DeviceStats stats_;
  uint64_t recorded_allocations_ = 0;
  bool caching_ = true;
  double fraction_ = 1;
  uint64_t clock_ = 0;  // counts new segments
  uint64_t last_segment_id_ = 0;
};

struct PrivatePool {
  c10::MempoolId_t id;
  int users = 0;
  int segments = 0;
  PrivateSettings settings{};
  Pool::Caches caches{};
};

/// The id of a private pool; {0, 0} for NULL, the default pool.
inline c10::MempoolId_t id_of(const PrivatePool* pool) {
  return pool == nullptr ? c10::MempoolId_t{0, 0} : pool->id;
}

/// The pool of a device. Never destroyed. Throws ValueError if OPENREG_ALLOC_CONF is invalid.
OPENREG_EXPORT Pool& pool_of(c10::DeviceIndex device);

}  // namespace openreg
