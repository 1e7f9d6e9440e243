#include "memory/pool.h"

#include "common/check.h"
#include "device/device.h"
#include "event/event.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <string>
#include <utility>

namespace openreg {
namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargeSegment = size_t{20} << 20;
constexpr size_t kLargestShared = size_t{10} << 20;  // larger requests get a segment of their own

size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

void add(StatArray& stat, bool small, size_t amount) {
  stat[static_cast<size_t>(StatType::AGGREGATE)].increase(amount);
  stat[static_cast<size_t>(small ? StatType::SMALL_POOL : StatType::LARGE_POOL)].increase(amount);
}

void subtract(StatArray& stat, bool small, size_t amount) {
  stat[static_cast<size_t>(StatType::AGGREGATE)].decrease(amount);
  stat[static_cast<size_t>(small ? StatType::SMALL_POOL : StatType::LARGE_POOL)].decrease(amount);
}

int64_t in_total(const StatArray& stat) {
  return stat[static_cast<size_t>(StatType::AGGREGATE)].current;
}

template <typename Reset>
void for_each_stat(DeviceStats& stats, Reset reset) {
  for (StatArray* array : {&stats.allocation, &stats.segment, &stats.active, &stats.allocated_bytes,
                           &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
    for (auto& stat : *array) {
      reset(stat);
    }
  }
}

}  // namespace

Block* Pool::allocate(size_t bytes, c10::StreamId stream) {
  // So large that rounding could overflow: left as it is, and refused by the runtime in words.
  const size_t size = bytes > (size_t{1} << 62) ? bytes : round_up(bytes, kGranularity);
  std::unique_lock<std::mutex> lock(mutex_);
  Cache& cache = cache_of(stream);
  Block* block = take(cache, size);
  if (C10_UNLIKELY(block == nullptr && !waiting_.empty())) {
    collect();
    block = take(cache, size);
  }
  if (C10_UNLIKELY(block == nullptr)) {
    block = new_segment(stream, size, bytes, lock);
    split(cache, block, size);
  }
  block->requested = bytes;
  add(stats_.allocation, block->small, 1);
  add(stats_.allocated_bytes, block->small, block->size);
  add(stats_.requested_bytes, block->small, bytes);
  add(stats_.active, block->small, 1);
  add(stats_.active_bytes, block->small, block->size);
  report_to_profiler(block, 1);
  return block;
}

void Pool::free(Block* block) {
  std::lock_guard<std::mutex> lock(mutex_);
  subtract(stats_.allocation, block->small, 1);
  subtract(stats_.allocated_bytes, block->small, block->size);
  subtract(stats_.requested_bytes, block->small, block->requested);
  report_to_profiler(block, -1);
  if (C10_LIKELY(block->used_by.empty())) {
    retire(block);
  } else {
    wait_for_other_streams(block);
  }
}

void Pool::record_stream(Block* block, c10::StreamId stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stream != block->stream && std::ranges::find(block->used_by, stream) == block->used_by.end()) {
    block->used_by.push_back(stream);
  }
}

void Pool::empty_cache() {
  std::unique_lock<std::mutex> lock(mutex_);
  collect();
  const std::vector<Block*> segments = take_whole_segments();
  lock.unlock();
  give_back(segments);
}

DeviceStats Pool::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

void Pool::reset_peak_stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  for_each_stat(stats_, [](auto& stat) { stat.reset_peak(); });
}

void Pool::reset_accumulated_stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  for_each_stat(stats_, [](auto& stat) { stat.reset_accumulated(); });
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
  stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = 0;
  stats_.num_device_free = 0;
}

Pool::Cache& Pool::cache_of(c10::StreamId stream) {
  if (C10_UNLIKELY(latest_ == nullptr || latest_stream_ != stream)) {
    auto& cache = caches_[stream];
    if (!cache) {
      cache = std::make_unique<Cache>();
    }
    latest_ = cache.get();
    latest_stream_ = stream;
  }
  return *latest_;
}

Block* Pool::take(Cache& cache, size_t size) {
  if (size <= kLargestSmall) {
    Block*& head = cache.lists[size / kGranularity];
    if (C10_LIKELY(head != nullptr)) {
      return std::exchange(head, head->next_cached);
    }
  }
  if (Block* block = take_from_tree(cache, size)) {
    return block;
  }
  if (size > kLargestSmall) {
    return nullptr;
  }
  empty_lists(cache);
  return take_from_tree(cache, size);
}

Block* Pool::take_from_tree(Cache& cache, size_t size) {
  Tree& tree = cache.tree(size <= kLargestSmall);
  const auto found = tree.lower_bound(size);
  if (found == tree.end()) {
    return nullptr;
  }
  Block* block = *found;
  tree.erase(found);
  block->free = false;
  split(cache, block, size);
  return block;
}

void Pool::split(Cache& cache, Block* block, size_t size) {
  const size_t rest = block->size - size;
  if (rest < (block->small ? kGranularity : kLargestSmall)) {
    return;
  }
  auto* remainder = new Block;
  remainder->ptr = static_cast<char*>(block->ptr) + size;
  remainder->size = rest;
  remainder->device = device_;
  remainder->stream = block->stream;
  remainder->small = block->small;
  remainder->before = block;
  remainder->after = block->after;
  if (block->after != nullptr) {
    block->after->before = remainder;
  }
  block->after = remainder;
  block->size = size;
  remainder->free = true;
  cache.tree(block->small).insert(remainder);
}

Block* Pool::new_segment(c10::StreamId stream, size_t size, size_t asked,
                         std::unique_lock<std::mutex>& lock) {
  const bool small = size <= kLargestSmall;
  size_t length = size;
  if (size <= kLargestShared) {
    length = small ? kSmallSegment : kLargeSegment;
  } else if (size <= (size_t{1} << 62)) {
    length = round_up(size, kSmallSegment);
  }
  DeviceScope scope(device_);
  void* ptr = nullptr;
  orError_t answer = orMalloc(&ptr, length);
  if (orGetErrorClass(answer) == orClassOutOfMemory) {
    ++stats_.num_alloc_retries;
    lock.unlock();
    OR_CHECK(orDeviceSynchronize());  // then every block that waits for another stream is free
    lock.lock();
    ++stats_.num_sync_all_streams;
    collect();
    const std::vector<Block*> segments = take_whole_segments();
    lock.unlock();
    give_back(segments);
    lock.lock();
    if (size <= kLargestShared) {
      length = round_up(size, kSmallSegment);
    }
    answer = orMalloc(&ptr, length);
  }
  if (orGetErrorClass(answer) == orClassOutOfMemory) {
    ++stats_.num_ooms;
    throw_out_of_memory(asked);
  }
  OR_CHECK(answer);
  ++stats_.num_device_alloc;
  add(stats_.segment, small, 1);
  add(stats_.reserved_bytes, small, length);
  auto* block = new Block;
  block->ptr = ptr;
  block->size = length;
  block->device = device_;
  block->stream = stream;
  block->small = small;
  return block;
}

// Costs one thread-local test where nobody profiles memory.
void Pool::report_to_profiler(const Block* block, int sign) const {
  c10::reportMemoryUsageToProfiler(block->ptr, sign * static_cast<int64_t>(block->size),
                                   static_cast<size_t>(in_total(stats_.allocated_bytes)),
                                   static_cast<size_t>(in_total(stats_.reserved_bytes)),
                                   c10::Device(kDevice, device_));
}

void Pool::throw_out_of_memory(size_t asked) {
  const std::string words = orGetLastErrorMessage();
  c10::reportOutOfMemoryToProfiler(
      static_cast<int64_t>(asked), static_cast<size_t>(in_total(stats_.allocated_bytes)),
      static_cast<size_t>(in_total(stats_.reserved_bytes)), c10::Device(kDevice, device_));
  TORCH_CHECK_WITH(OutOfMemoryError, false, OR_DEVICE_NAME, " out of memory: device ",
                   static_cast<int>(device_), " was asked for ", asked, " bytes; ",
                   in_total(stats_.allocated_bytes), " bytes are in use by tensors, ",
                   in_total(stats_.reserved_bytes) - in_total(stats_.allocated_bytes),
                   " bytes are cached. The runtime says: ", words, ". Free tensors or use smaller ones.");
}

void Pool::retire(Block* block) {
  subtract(stats_.active, block->small, 1);
  subtract(stats_.active_bytes, block->small, block->size);
  Cache& cache = cache_of(block->stream);
  if (C10_LIKELY(block->small)) {
    block->next_cached = std::exchange(cache.lists[block->size / kGranularity], block);
  } else {
    put_into_tree(cache, block);
  }
}

void Pool::put_into_tree(Cache& cache, Block* block) {
  Tree& tree = cache.tree(block->small);
  if (block->before != nullptr && block->before->free) {
    merge_neighbour(tree, block, block->before);
  }
  if (block->after != nullptr && block->after->free) {
    merge_neighbour(tree, block, block->after);
  }
  block->free = true;
  tree.insert(block);
}

void Pool::merge_neighbour(Tree& tree, Block* block, Block* neighbour) {
  tree.erase(neighbour);
  if (neighbour == block->before) {
    block->ptr = neighbour->ptr;
    block->before = neighbour->before;
    if (block->before != nullptr) {
      block->before->after = block;
    }
  } else {
    block->after = neighbour->after;
    if (block->after != nullptr) {
      block->after->before = block;
    }
  }
  block->size += neighbour->size;
  block->alias.reset();  // it was for another begin or length
  delete neighbour;
}

void Pool::empty_lists(Cache& cache) {
  for (Block*& head : cache.lists) {
    while (head != nullptr) {
      put_into_tree(cache, std::exchange(head, head->next_cached));
    }
  }
}

void Pool::wait_for_other_streams(Block* block) {
  Waiting waiting{block, {}};
  for (const c10::StreamId other : block->used_by) {
    // A stream that was destroyed meanwhile cannot record; orFree and this device's work still order the
    // memory.
    void* event = nullptr;
    if (try_record_event(&event, c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, device_), other))) {
      waiting.events.push_back(event);
    }
  }
  block->used_by.clear();
  waiting_.push_back(std::move(waiting));
}

void Pool::collect() {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (!std::ranges::all_of(waiting.events, query_event)) {
      return false;
    }
    std::ranges::for_each(waiting.events, destroy_event);
    retire(waiting.block);
    return true;
  });
}

std::vector<Block*> Pool::take_whole_segments() {
  std::vector<Block*> segments;
  for (auto& [stream, cache] : caches_) {
    empty_lists(*cache);
    for (Tree* tree : {&cache->small, &cache->large}) {
      std::erase_if(*tree, [&](Block* block) {
        if (block->is_whole_segment()) {
          segments.push_back(block);
        }
        return block->is_whole_segment();
      });
    }
  }
  for (const Block* block : segments) {
    ++stats_.num_device_free;
    subtract(stats_.segment, block->small, 1);
    subtract(stats_.reserved_bytes, block->small, block->size);
  }
  return segments;
}

// Called without the lock.
void Pool::give_back(const std::vector<Block*>& segments) {
  DeviceScope scope(device_);
  orError_t failed = orSuccess;
  for (Block* block : segments) {
    const orError_t answer = orFree(block->ptr);
    failed = failed == orSuccess ? answer : failed;
    delete block;
  }
  OR_CHECK(failed);
}

}  // namespace openreg
