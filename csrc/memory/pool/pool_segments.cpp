// Where a pool's memory comes from and goes to; see Note [What is given back] in pool.h.
#include "common/check.h"
#include "common/gil_release.h"
#include "device/device.h"
#include "memory/pool/ipc_hooks.h"
#include "memory/pool/pool.h"
#include "stream/capture.h"

#include <algorithm>

namespace openreg {
namespace {

constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargestShared = size_t{10} << 20;  // larger requests get a segment of their own

size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
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

size_t Pool::segment_length(size_t size, bool sparing) const {
  if (size > (size_t{1} << 60) || !caching_) {
    return size;
  }
  if (size > kLargestShared || sparing) {
    return round_up(size, kSmallSegment);
  }
  return size <= kLargestSmall ? kSmallSegment : settings_.large_segment;
}

// Out of memory is an answer here, and not an exception.
orError_t Pool::reserve(void** ptr, size_t length) {
  if (fraction_ < 1 && in_total(stats_.reserved_bytes) + length > limit()) {
    return orErrorOutOfMemory;
  }
  return orMalloc(ptr, length);
}

Block* Pool::new_segment(Cache& cache, c10::StreamId stream, PrivatePool* home, size_t size, size_t asked,
                         const Context& context, Lock& lock) {
  ++clock_;
  DeviceScope scope(device_);
  // To give back what is cached is to wait for the device, which would end a capture.
  const bool may_give_back = !capture_underway();
  if (C10_UNLIKELY(settings_.garbage_collection_threshold > 0) && may_give_back) {
    collect_garbage(segment_length(size, false), lock);
  }
  size_t length = segment_length(size, false);  // only now: collecting lets go of the lock
  void* ptr = nullptr;
  orError_t answer = reserve(&ptr, length);
  if (orGetErrorClass(answer) == orClassOutOfMemory && may_give_back) {
    ++stats_.num_alloc_retries;
    lock.unlock();
    ipc_hooks.collect_shared();
    // Then every block that waits for another stream is free. A kernel cannot wait, and goes without.
    const orError_t waited = [] {
      const GilRelease waiting;
      return orDeviceSynchronize();
    }();
    const bool may_wait = waited != orErrorNotPermitted;
    if (may_wait) {
      OR_CHECK(waited);
    }
    lock.lock();
    ++stats_.num_sync_all_streams;
    collect();
    if (Block* block = caching_ ? take(cache, size) : nullptr) {  // somebody freed it meanwhile
      return block;
    }
    give_back(take_whole_segments(), lock);
    if (may_wait) {
      wait_for_those_who_give_back(lock);
    }
    length = segment_length(size, true);
    answer = reserve(&ptr, length);
  }
  if (orGetErrorClass(answer) == orClassOutOfMemory) {
    throw_out_of_memory(asked, length, context);
  }
  OR_CHECK(answer);
  auto* block = new Block;
  block->ptr = ptr;
  block->size = length;
  block->device = device_;
  block->stream = stream;
  block->small = size <= kLargestSmall;
  block->home = home;
  remember_segment(block, context);
  if (C10_LIKELY(caching_)) {
    split(cache, block, size);
  }
  return block;
}

void Pool::remember_segment(Block* block, const Context& context) {
  ++stats_.num_device_alloc;
  add(stats_.segment, block->small, 1);
  add(stats_.reserved_bytes, block->small, block->size);
  if (block->size >= settings_.max_split_size) {
    stats_.oversize_segments.increase(1);
  }
  if (block->home != nullptr) {
    ++block->home->segments;
    add(stats_.reserved_bytes_by_private_pools[block->home->id], block->small, block->size);
  }
  segments_.emplace(block->ptr, Segment{block, block->size, context});
  history_.note(TraceEntry::SEGMENT_ALLOC, reinterpret_cast<size_t>(block->ptr), block->size, block->stream,
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
  forget_segments(idle);
  give_back(idle, lock);
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
  const auto is_meant = [&](const auto& entry) {
    return entry.second->users == 0 && (all || entry.first == of);
  };
  for (auto& entry : private_) {
    if (is_meant(entry)) {
      take_from(entry.second->caches);
    }
  }
  forget_segments(segments);
  std::erase_if(private_, [&](const auto& entry) { return is_meant(entry) && entry.second->segments == 0; });
  return segments;
}

void Pool::forget_segments(const std::vector<Block*>& segments) {
  for (Block* block : segments) {
    ++stats_.num_device_free;
    subtract(stats_.segment, block->small, 1);
    subtract(stats_.reserved_bytes, block->small, block->size);
    if (block->size >= settings_.max_split_size) {
      stats_.oversize_segments.decrease(1);
    }
    const auto segment = segments_.find(block->ptr);
    history_.note(TraceEntry::SEGMENT_FREE, reinterpret_cast<size_t>(block->ptr), block->size, block->stream,
                  segment->second.context, id_of(block->home));
    segments_.erase(segment);
    if (block->home != nullptr) {
      --block->home->segments;
      subtract(stats_.reserved_bytes_by_private_pools[block->home->id], block->small, block->size);
      block->home = nullptr;  // if it cannot be given back after all, it is the ordinary pool's
    }
  }
}

// What another thread is giving back is in no book, and not yet the runtime's.
void Pool::wait_for_those_who_give_back(Lock& lock) {
  {
    const GilRelease waiting;
    given_back_.wait(lock, [&] { return giving_back_ == 0; });
    lock.unlock();  // Python's lock is not taken under the pool's: others take them the other way round
  }
  lock.lock();
}

// Lets go of the lock meanwhile. Inside of a kernel the runtime does not always take memory back, since it
// cannot wait there; then it stays cached.
void Pool::give_back(const std::vector<Block*>& segments, Lock& lock) {
  if (segments.empty()) {
    return;
  }
  DeviceScope scope(device_);
  orError_t failed = orSuccess;
  {
    const GilRelease waiting;
    std::vector<Block*> kept;
    ++giving_back_;
    lock.unlock();
    for (Block* block : segments) {
      if (const orError_t answer = orFree(block->ptr); answer == orSuccess) {
        delete block;
      } else {
        failed = answer;
        kept.push_back(block);
      }
    }
    lock.lock();
    for (Block* block : kept) {
      remember_segment(block, nullptr);
      cache_of(block->stream, block->home).tree(block->small).insert(block);
    }
    if (--giving_back_ == 0) {
      given_back_.notify_all();
    }
    lock.unlock();  // as above
  }
  lock.lock();
  if (failed != orErrorNotPermitted) {
    OR_CHECK(failed);
  }
}

}  // namespace openreg
