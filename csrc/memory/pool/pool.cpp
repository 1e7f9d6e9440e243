#include "memory/pool/pool.h"

#include "common/check.h"
#include "device/device.h"
#include "event/event.h"
#include "memory_check/memory_check.h"
#include "stream/capture.h"
#include "stream/checked_stream.h"
#include "stream/stream.h"

#include <algorithm>
#include <utility>

namespace openreg {

namespace {

c10::Stream own_stream(const Block* block) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, block->device), block->stream);
}

// Whether it is a whole segment for ever, which can be larger than small blocks are.
bool is_unsplit(const Block* block) {
  return block->home != nullptr && block->home->settings.no_split;
}

void declare_freed(const Block& block) {
  c10::SmallVector<races::Stream, 2> recorded;
  for (const c10::Stream stream : block.used_by) {
    recorded.push_back(checked_stream(stream));
  }
  races::freed(block.ptr, block.size, recorded);
}

}  // namespace

size_t Pool::rounded(size_t bytes) const {
  // Rounding could overflow. The runtime will fail this request with an error message.
  if (C10_UNLIKELY(bytes > (size_t{1} << 60))) {
    return bytes;
  }
  if (C10_UNLIKELY(!settings_.roundup_power2_divisions.empty())) {
    return settings_.rounded(bytes);
  }
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

Block* Pool::allocate(size_t bytes, c10::StreamId stream, c10::MempoolId_t from) {
  const bool checked = memory_check::on();
  const CallSite site = C10_UNLIKELY(checked) ? memory_check::current_site() : 0;  // may take the GIL
  Context context;
  if (C10_UNLIKELY(history_.on())) {
    context = history_.gather(RecordContext::STATE);
  }
  Lock lock(mutex_);
  const size_t size = rounded(bytes);
  PrivatePool* home = C10_LIKELY(from.first == 0 && from.second == 0) ? nullptr : find_private(from);
  Cache& cache = cache_of(stream, home);
  retire_oldest();
  if (C10_UNLIKELY(!deferred_.empty())) {
    std::erase_if(deferred_,
                  [&](const Waiting& one) { return one.block->stream == stream && retire_if_joined(one); });
  }
  Block* block = C10_LIKELY(caching_) ? take(cache, size) : nullptr;
  if (C10_UNLIKELY(block == nullptr && !(waiting_.empty() && deferred_.empty()))) {
    collect();
    block = caching_ ? take(cache, size) : nullptr;
  }
  if (C10_UNLIKELY(block == nullptr)) {
    block = new_segment(cache, stream, home, size, bytes, context, lock);
  }
  block->requested = bytes;
  block->in_use = true;
  block->capture = C10_UNLIKELY(any_capture()) ? capture_of(stream_handle(own_stream(block))) : 0;
  if (C10_UNLIKELY(history_.on())) {
    block->context = std::move(context);
    block->allocation = ++recorded_allocations_;
  }
  if (C10_UNLIKELY(checked)) {
    block->ptr = block->region->allocate(bytes, site);
    block->alias.reset();  // its address is no longer valid
    count_allocated(block);
    seal_freed(lock);
    return block;
  }
  count_allocated(block);
  return block;
}

void Pool::count_allocated(const Block* block) {
  add(stats_.allocation, block->small, 1);
  add(stats_.allocated_bytes, block->small, block->size);
  add(stats_.requested_bytes, block->small, block->requested);
  add(stats_.active, block->small, 1);
  add(stats_.active_bytes, block->small, block->size);
  if (C10_UNLIKELY(block->size >= settings_.max_split_size)) {
    stats_.oversize_allocations.increase(1);
  }
  if (C10_UNLIKELY(history_.on())) {
    history_.note(TraceEntry::ALLOC, reinterpret_cast<size_t>(block->ptr), block->requested, block->stream,
                  block->context, id_of(block->home));
  }
  report_to_profiler(block, 1);
}

void Pool::count_freed(const Block* block) {
  subtract(stats_.allocation, block->small, 1);
  subtract(stats_.allocated_bytes, block->small, block->size);
  subtract(stats_.requested_bytes, block->small, block->requested);
  if (C10_UNLIKELY(block->size >= settings_.max_split_size)) {
    stats_.oversize_allocations.decrease(1);
  }
  if (C10_UNLIKELY(history_.on())) {
    history_.note(TraceEntry::FREE_REQUESTED, reinterpret_cast<size_t>(block->ptr), block->requested,
                  block->stream, block->context, id_of(block->home));
  }
  report_to_profiler(block, -1);
}

void Pool::count_retired(const Block* block) {
  subtract(stats_.active, block->small, 1);
  subtract(stats_.active_bytes, block->small, block->size);
  if (C10_UNLIKELY(history_.on())) {
    history_.note(TraceEntry::FREE_COMPLETED, reinterpret_cast<size_t>(block->ptr), block->requested,
                  block->stream, block->context, id_of(block->home));
  }
}

// Called by deleters, so exceptions are not allowed.
void Pool::free(Block* block) noexcept {
  Context context;
  if (C10_UNLIKELY(history_.on())) {
    context = history_.gather(RecordContext::ALL);
  }
  const bool checked = block->region != nullptr;
  if (C10_UNLIKELY(checked)) {
    block->region->set_freed_at(memory_check::current_site());  // may take the GIL
  }
  Lock lock(mutex_);
  block->in_use = false;
  if (C10_UNLIKELY(history_.on())) {
    block->context = std::move(context);  // also for FREE_COMPLETED, which may come later
  }
  count_freed(block);
  if (C10_UNLIKELY(races::on())) {
    declare_freed(*block);
  }
  if (C10_LIKELY(block->used_by.empty())) {
    retire(block);
  } else if (C10_UNLIKELY(any_capture())) {
    defer(block);
  } else {
    wait_for_other_streams(block);
  }
  if (C10_UNLIKELY(checked)) {
    seal_freed(lock);
  }
  if (C10_UNLIKELY(!caching_) && !any_capture()) {
    lock.unlock();
    try {
      empty_cache();
    } catch (const std::exception&) {
      // The memory stays cached. The next empty_cache reports the error.
    }
  }
}

void Pool::record_stream(Block* block, c10::Stream stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool own = stream.device_index() == device_ && stream.id() == block->stream;
  if (!own && std::ranges::find(block->used_by, stream) == block->used_by.end()) {
    block->used_by.push_back(stream);
  }
}

void Pool::empty_cache(c10::MempoolId_t of) {
  if (C10_UNLIKELY(any_capture())) {
    DeviceScope scope(device_);
    OR_CHECK(orDeviceCheckUncaptured("emptying the cache of device memory"));
  }
  Lock lock(mutex_);
  ++stats_.num_sync_all_streams;
  collect();
  empty_quarantine();
  release_segments(take_whole_segments(of), lock);
}

void Pool::use_private(c10::MempoolId_t id) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto& pool = private_[id];
  if (!pool) {
    pool = std::make_unique<PrivatePool>(PrivatePool{id});
  }
  ++pool->users;
}

void Pool::configure_private(c10::MempoolId_t id, const PrivateSettings& settings) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (PrivatePool* pool = find_private(id)) {
    pool->settings = settings;
  }
}

PrivatePool* Pool::find_private(c10::MempoolId_t id) {
  const auto found = private_.find(id);
  return found == private_.end() ? nullptr : found->second.get();
}

void Pool::release_private(c10::MempoolId_t id) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = private_.find(id);
  if (found != private_.end() && --found->second->users == 0 && found->second->segments == 0) {
    private_.erase(found);
  }
}

int Pool::private_users(c10::MempoolId_t id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const PrivatePool* pool = find_private(id);
  return pool == nullptr ? 0 : pool->users;
}

Pool::Cache& Pool::cache_of(c10::StreamId stream, PrivatePool* home) {
  if (C10_UNLIKELY(home != nullptr)) {
    auto& cache = home->caches[stream];
    if (!cache) {
      cache = std::make_unique<Cache>();
    }
    return *cache;
  }
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
      Block* block = std::exchange(head, head->next_cached);
      count_not_idle(block);
      return block;
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
  if (C10_UNLIKELY(block->region != nullptr && block->size != size)) {
    return nullptr;  // checked blocks are not split
  }
  // Blocks that are too large to split serve only requests of nearly their size.
  const size_t whole = settings_.max_split_size;
  if (C10_UNLIKELY(block->size >= whole &&
                   (size < whole || block->size - size >= settings_.max_non_split_rounding))) {
    return nullptr;
  }
  tree.erase(found);
  count_not_idle(block);
  block->free = false;
  split(cache, block, size);
  return block;
}

Block* Pool::make_block(void* ptr, size_t size, c10::StreamId stream, PrivatePool* home, bool small) const {
  auto* block = new Block;
  block->ptr = ptr;
  block->size = size;
  block->device = device_;
  block->stream = stream;
  block->home = home;
  block->small = small;
  return block;
}

void Pool::split(Cache& cache, Block* block, size_t size) {
  if (C10_UNLIKELY(is_unsplit(block))) {
    return;
  }
  const size_t rest = block->size - size;
  if (rest < (block->small ? kGranularity : kLargestSmall) || block->size >= settings_.max_split_size) {
    return;
  }
  Block* remainder =
      make_block(static_cast<char*>(block->ptr) + size, rest, block->stream, block->home, block->small);
  remainder->before = block;
  remainder->after = block->after;
  if (block->after != nullptr) {
    block->after->before = remainder;
  }
  block->after = remainder;
  block->size = size;
  remainder->free = true;
  remainder->idle_since = clock_;
  count_idle(remainder);
  cache.tree(block->small).insert(remainder);
}

void Pool::retire(Block* block) {
  count_retired(block);
  if (C10_UNLIKELY(block->context != nullptr)) {  // also if the recording has ended
    block->context.reset();
  }
  if (C10_UNLIKELY(block->region != nullptr)) {
    quarantine(block);
    return;
  }
  put_into_cache(block);
}

void Pool::put_into_cache(Block* block) {
  Cache& cache = cache_of(block->stream, block->home);
  if (C10_LIKELY(block->small && !is_unsplit(block))) {
    count_idle(block);
    block->next_cached = std::exchange(cache.lists[block->size / kGranularity], block);
  } else {
    put_into_tree(cache, block);
  }
}

// Idle blocks that are only a part of their segment (inactive_split in the statistics).
void Pool::count_idle(const Block* block) {
  if (!block->is_whole_segment()) {
    add(stats_.inactive_split, block->small, 1);
    add(stats_.inactive_split_bytes, block->small, block->size);
  }
}

void Pool::count_not_idle(const Block* block) {
  if (!block->is_whole_segment()) {
    subtract(stats_.inactive_split, block->small, 1);
    subtract(stats_.inactive_split_bytes, block->small, block->size);
  }
}

void Pool::put_into_tree(Cache& cache, Block* block) {
  Tree& tree = cache.tree(block->small);
  if (block->after != nullptr && block->after->free) {
    tree.erase(block->after);
    merge_with_next(block);
  }
  if (block->before != nullptr && block->before->free) {
    block = block->before;
    tree.erase(block);
    count_not_idle(block);
    merge_with_next(block);
  }
  block->free = true;
  block->idle_since = clock_;
  count_idle(block);
  tree.insert(block);
}

// The lower block survives: a segment's first block is the same for the segment's lifetime.
void Pool::merge_with_next(Block* block) {
  Block* gone = block->after;
  if (gone->free) {
    count_not_idle(gone);
  }
  block->after = gone->after;
  if (block->after != nullptr) {
    block->after->before = block;
  }
  block->size += gone->size;
  block->alias.reset();  // its length is no longer valid
  delete gone;
}

void Pool::empty_lists(Cache& cache) {
  for (Block*& head : cache.lists) {
    while (head != nullptr) {
      Block* block = std::exchange(head, head->next_cached);
      count_not_idle(block);
      put_into_tree(cache, block);
    }
  }
}

void Pool::wait_for_other_streams(Block* block) {
  Waiting waiting{block, {}};
  for (const c10::Stream other : block->used_by) {
    // A destroyed stream cannot record, so the block does not wait for it; orFree still waits for its work.
    void* event = nullptr;
    if (try_record_event(&event, other)) {
      waiting.events.push_back(event);
    }
  }
  block->used_by.clear();
  waiting_.push_back(std::move(waiting));
}

// Up to the first block that other streams still use: cheap enough for every allocation. collect() looks at
// all blocks.
void Pool::retire_oldest() {
  while (C10_UNLIKELY(!waiting_.empty()) && retire_if_passed(waiting_.front())) {
    waiting_.pop_front();
  }
}

void Pool::defer(Block* block) {
  Waiting deferred{block, {}};
  if (settings_.graph_capture_record_stream_reuse && block->capture != 0 &&
      block->capture == capture_of(stream_handle(own_stream(block)))) {
    for (const c10::Stream other : block->used_by) {
      void* event = nullptr;
      if (!try_record_event(&event, other)) {
        std::ranges::for_each(std::exchange(deferred.events, {}), destroy_event);
        break;
      }
      deferred.events.push_back(event);
    }
  }
  if (!retire_if_joined(deferred)) {
    deferred_.push_back(std::move(deferred));
  }
}

bool Pool::retire_if_joined(const Waiting& deferred) {
  const c10::Stream own = own_stream(deferred.block);
  if (deferred.events.empty() ||
      !std::ranges::all_of(deferred.events, [&](void* event) { return follows_event(own, event); })) {
    return false;
  }
  std::ranges::for_each(deferred.events, destroy_event);
  deferred.block->used_by.clear();
  retire(deferred.block);
  return true;
}

bool Pool::retire_if_passed(const Waiting& waiting) {
  if (!std::ranges::all_of(waiting.events, is_complete)) {
    return false;
  }
  std::ranges::for_each(waiting.events, destroy_event);
  retire(waiting.block);
  return true;
}

void Pool::collect() {
  if (C10_UNLIKELY(!deferred_.empty()) && !any_capture()) {
    for (const Waiting& deferred : std::exchange(deferred_, {})) {
      std::ranges::for_each(deferred.events, destroy_event);
      wait_for_other_streams(deferred.block);
    }
  }
  std::erase_if(waiting_, [&](const Waiting& waiting) { return retire_if_passed(waiting); });
}

}  // namespace openreg
