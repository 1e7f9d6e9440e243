// Reserves and releases the segments of a pool; see Note [Releasing segments] in pool.h.
#include "common/check.h"
#include "common/gil_release.h"
#include "device/device.h"
#include "memory/pool/ipc_hooks.h"
#include "memory/pool/pool.h"
#include "memory_check/memory_check.h"
#include "memory_check/regions.h"
#include "race_check/race_check.h"
#include "stream/capture.h"

#include <algorithm>

namespace openreg {
namespace {

constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargestShared = size_t{10} << 20;  // larger requests get their own segment

size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// The bytes of the segment of a block that is a whole segment.
size_t length_of(const Block* block) {
  return C10_LIKELY(block->region == nullptr) ? block->size : block->region->length();
}

}  // namespace

void Pool::set_memory_fraction(double fraction) {
  std::lock_guard<std::mutex> lock(mutex_);
  fraction_ = fraction;
}

double Pool::memory_fraction() {
  std::lock_guard<std::mutex> lock(mutex_);
  return fraction_;
}

size_t Pool::limit() {
  const size_t total = device_properties(device_).total_memory;
  return fraction_ < 1 ? static_cast<size_t>(static_cast<double>(total) * fraction_) : total;
}

size_t Pool::segment_length(size_t size, bool minimal) const {
  if (size > (size_t{1} << 60)) {
    return size;
  }
  if (C10_UNLIKELY(memory_check::on())) {
    // The runtime aligns to less than a page.
    return memory_check::Region::length_for(size) + memory_check::page_size();
  }
  if (!caching_) {
    return size;
  }
  if (size > kLargestShared || minimal) {
    return round_up(size, kSmallSegment);
  }
  return size <= kLargestSmall ? kSmallSegment : settings_.large_segment;
}

// Returns out-of-memory errors and does not throw them.
orError_t Pool::reserve(void** ptr, size_t length) {
  if (fraction_ < 1 && in_total(stats_.reserved_bytes) + length > limit()) {
    return orErrorOutOfMemory;
  }
  return orMalloc(ptr, length);
}

// A free block of a private pool that permits it.
Block* Pool::take_from_private(c10::StreamId stream, size_t size) {
  for (auto& [id, pool] : private_) {
    if (!pool->settings.use_on_oom) {
      continue;
    }
    if (Block* block = take(cache_of(stream, pool.get()), size)) {
      return block;
    }
  }
  return nullptr;
}

Block* Pool::new_segment(Cache& cache, c10::StreamId stream, PrivatePool* home, size_t size, size_t requested,
                         const Context& context, Lock& lock) {
  ++clock_;
  DeviceScope scope(device_);
  // Releasing cached memory synchronizes the device, which would invalidate a capture.
  const bool may_release = !any_capture();
  if (C10_UNLIKELY(settings_.garbage_collection_threshold > 0) && may_release) {
    collect_garbage(segment_length(size, false), lock);
  }
  // Not before: collect_garbage unlocks, and the settings may change meanwhile.
  size_t length = segment_length(size, false);
  void* ptr = nullptr;
  orError_t error = reserve(&ptr, length);
  if (orGetErrorClass(error) == orClassOutOfMemory && may_release) {
    ++stats_.num_alloc_retries;
    lock.unlock();
    ipc_hooks.collect_shared();
    // After this synchronization, every block that waits for another stream is free. A kernel cannot
    // synchronize, and continues without.
    const orError_t waited = [] {
      const GilRelease waiting;
      return orDeviceSynchronize();
    }();
    const bool may_wait = waited != orErrorNotPermitted;
    if (may_wait) {
      OR_CHECK_RESULT(waited, orDeviceSynchronize);
    }
    lock.lock();
    ++stats_.num_sync_all_streams;
    collect();
    empty_quarantine();
    if (Block* block = caching_ ? take(cache, size) : nullptr) {  // freed by another thread meanwhile
      return block;
    }
    release_segments(take_whole_segments(), lock);
    if (may_wait) {
      wait_for_releasing_threads(lock);
    }
    length = segment_length(size, true);
    error = reserve(&ptr, length);
  }
  if (orGetErrorClass(error) == orClassOutOfMemory) {
    if (Block* block = home == nullptr && caching_ ? take_from_private(stream, size) : nullptr) {
      return block;
    }
    throw_out_of_memory(requested, length, context, lock);
  }
  OR_CHECK_RESULT(error, orMalloc);
  const bool checked = memory_check::on();
  Block* block = make_block(ptr, C10_UNLIKELY(checked) ? size : length, stream, home, size <= kLargestSmall);
  if (C10_UNLIKELY(checked)) {
    block->region = memory_check::add_memory(ptr, length, size, /*unused=*/true);
  }
  track_segment(block, context);
  if (C10_LIKELY(caching_)) {
    split(cache, block, size);
  }
  return block;
}

void Pool::track_segment(Block* block, const Context& context) {
  const size_t length = length_of(block);
  ++stats_.num_device_alloc;
  add(stats_.segment, block->small, 1);
  add(stats_.reserved_bytes, block->small, length);
  if (block->size >= settings_.max_split_size) {
    stats_.oversize_segments.increase(1);
  }
  if (block->home != nullptr) {
    ++block->home->segments;
    add(stats_.reserved_bytes_by_private_pools[block->home->id], block->small, length);
  }
  // RecordContext::STATE keeps only the stacks of memory in use.
  segments_.emplace(block->ptr,
                    Segment{block, length, ++last_segment_id_, history_.keeps_stacks() ? context : nullptr});
  history_.note(TraceEntry::SEGMENT_ALLOC, reinterpret_cast<size_t>(block->ptr), length, block->stream,
                context, id_of(block->home));
}

void Pool::collect_garbage(size_t coming, Lock& lock) {
  const auto threshold =
      static_cast<size_t>(settings_.garbage_collection_threshold * static_cast<double>(limit()));
  const size_t reserved = in_total(stats_.reserved_bytes) + coming;
  if (reserved <= threshold) {
    return;
  }
  std::vector<Block*> idle;
  for (auto& [stream, cache] : caches_) {
    std::ranges::copy_if(cache->large, std::back_inserter(idle), &Block::is_whole_segment);
  }
  std::ranges::sort(idle, {}, &Block::idle_since);
  size_t freed = 0;
  const auto enough = std::ranges::find_if(idle, [&](const Block* block) {
    const bool reached = reserved - std::min(reserved, freed) <= threshold;
    freed += block->size;
    return reached;
  });
  idle.erase(enough, idle.end());
  for (Block* block : idle) {
    cache_of(block->stream, nullptr).large.erase(block);
  }
  untrack_segments(idle);
  release_segments(idle, lock);
}

std::vector<Block*> Pool::take_whole_segments(c10::MempoolId_t of) {
  std::vector<Block*> segments;
  const auto take_from = [&](Caches& caches) {
    for (auto& [stream, cache] : caches) {
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
  };
  const bool all = of == c10::MempoolId_t{0, 0};
  if (all) {
    take_from(caches_);
  }
  const auto is_selected = [&](const auto& entry) {
    return entry.second->users == 0 && (all || entry.first == of);
  };
  for (auto& entry : private_) {
    if (is_selected(entry)) {
      take_from(entry.second->caches);
    }
  }
  untrack_segments(segments);
  std::erase_if(private_,
                [&](const auto& entry) { return is_selected(entry) && entry.second->segments == 0; });
  return segments;
}

void Pool::untrack_segments(const std::vector<Block*>& segments) {
  for (Block* block : segments) {
    ++stats_.num_device_free;
    subtract(stats_.segment, block->small, 1);
    const size_t length = length_of(block);
    subtract(stats_.reserved_bytes, block->small, length);
    if (block->size >= settings_.max_split_size) {
      stats_.oversize_segments.decrease(1);
    }
    const auto segment = segments_.find(block->ptr);
    history_.note(TraceEntry::SEGMENT_FREE, reinterpret_cast<size_t>(block->ptr), length, block->stream,
                  segment->second.context, id_of(block->home));
    segments_.erase(segment);
    if (block->home != nullptr) {
      --block->home->segments;
      subtract(stats_.reserved_bytes_by_private_pools[block->home->id], block->small, length);
      block->home = nullptr;  // if the release fails, the default pool owns the segment
    }
  }
}

// Segments that another thread is releasing are not tracked, and the runtime may not have freed them yet.
void Pool::wait_for_releasing_threads(Lock& lock) {
  {
    const GilRelease waiting;
    segments_released_.wait(lock, [&] { return releasing_threads_ == 0; });
    lock.unlock();  // lock order: the GIL is never taken while the pool's mutex is held
  }
  lock.lock();
}

// Unlocks while the runtime frees. Inside a kernel the runtime may refuse to free, because it cannot wait
// there; the segment then stays cached.
void Pool::release_segments(const std::vector<Block*>& segments, Lock& lock) {
  if (segments.empty()) {
    return;
  }
  DeviceScope scope(device_);
  orError_t failed = orSuccess;
  {
    const GilRelease waiting;
    std::vector<Block*> kept;
    ++releasing_threads_;
    lock.unlock();
    for (Block* block : segments) {
      if (C10_UNLIKELY(races::on())) {
        races::forget(block->ptr, block->size);
      }
      const size_t length = length_of(block);
      if (C10_UNLIKELY(block->region != nullptr)) {
        memory_check::remove_region(block->region);
      }
      if (const orError_t error = orFree(block->ptr); error == orSuccess) {
        delete block;
      } else {
        failed = error;
        if (C10_UNLIKELY(block->region != nullptr)) {
          block->region = memory_check::add_memory(block->ptr, length, block->size, /*unused=*/false);
        }
        kept.push_back(block);
      }
    }
    lock.lock();
    for (Block* block : kept) {
      track_segment(block, nullptr);
      cache_of(block->stream, block->home).tree(block->small).insert(block);
    }
    if (--releasing_threads_ == 0) {
      segments_released_.notify_all();
    }
    lock.unlock();  // lock order, as above
  }
  lock.lock();
  if (failed != orErrorNotPermitted) {
    OR_CHECK_RESULT(failed, orFree);
  }
}

}  // namespace openreg
