// Checkpoints of a private pool; see Note [Checkpoints] in pool.h.
#include "memory/pool/pool.h"
#include "memory_check/region.h"
#include "stream/stream.h"

#include <algorithm>
#include <map>

namespace openreg {
namespace {

// The beginning of a segment; see Note [Checked blocks] in pool.h.
void* beginning_of(const Block& first) {
  return first.region == nullptr ? first.ptr : first.region->base();
}

bool is_same(const PoolCheckpoint::BlockState& state, const Block& block) {
  return state.ptr == block.ptr && state.size == block.size;
}

}  // namespace

PrivatePool& Pool::settled_private(c10::MempoolId_t id) {
  PrivatePool* pool = find_private(id);
  TORCH_CHECK_VALUE(pool != nullptr, "device ", static_cast<int>(device_), " has no memory pool (", id.first,
                    ", ", id.second, ")");
  collect();
  const auto is_of_pool = [&](const Block* block) { return block->home == pool; };
  TORCH_CHECK(std::ranges::none_of(waiting_, is_of_pool, &Waiting::block) &&
                  std::ranges::none_of(deferred_, is_of_pool, &Waiting::block),
              "other streams may still use freed memory of the pool (", id.first, ", ", id.second,
              "): synchronize the device before a checkpoint, and end captures");
  return *pool;
}

template <typename Function>
void Pool::for_each_block(const PrivatePool& pool, Function function) {
  for (const auto& [address, segment] : segments_) {
    if (segment.first->home == &pool) {
      for (Block* block = segment.first; block != nullptr; block = block->after) {
        function(segment, block);
      }
    }
  }
}

PoolCheckpoint Pool::checkpoint(c10::MempoolId_t id) {
  std::lock_guard<std::mutex> lock(mutex_);
  PoolCheckpoint checkpoint{id, {}};
  for_each_block(settled_private(id), [&](const Segment& segment, const Block* block) {
    auto& state = checkpoint.segments[beginning_of(*segment.first)];
    state.id = segment.id;
    state.blocks.push_back({block->ptr, block->size, block->requested, block->in_use, block->free});
  });
  return checkpoint;
}

bool Pool::is_in_use(c10::MempoolId_t id, void* ptr) {
  std::lock_guard<std::mutex> lock(mutex_);
  const PrivatePool* pool = find_private(id);
  bool found = false;
  if (pool != nullptr) {
    for_each_block(*pool,
                   [&](const Segment&, const Block* block) { found |= block->in_use && block->ptr == ptr; });
  }
  return found;
}

bool Pool::has_live_allocations(c10::MempoolId_t id, const std::unordered_set<void*>& expected) {
  std::lock_guard<std::mutex> lock(mutex_);
  const PrivatePool* pool = find_private(id);
  TORCH_CHECK_VALUE(pool != nullptr, "device ", static_cast<int>(device_), " has no memory pool (", id.first,
                    ", ", id.second, ")");
  size_t found = 0;
  bool all_expected = true;
  for_each_block(*pool, [&](const Segment&, const Block* block) {
    found += block->in_use ? 1 : 0;
    all_expected &= !block->in_use || expected.contains(block->ptr);
  });
  return all_expected && found == expected.size();
}

// Throws before it changes anything.
void Pool::check_restorable(const PrivatePool& pool, const PoolCheckpoint& checkpoint,
                            const std::unordered_set<void*>& stale) {
  for (const auto& [address, state] : checkpoint.segments) {
    const auto segment = segments_.find(address);
    TORCH_CHECK(
        segment != segments_.end() && segment->second.id == state.id && segment->second.first->home == &pool,
        "the segment at ", address,
        " of the checkpoint was released; keep a graph or a MemPool of the pool alive while its "
        "checkpoints are used");
  }
  for_each_block(pool, [&](const Segment& segment, const Block* block) {
    if (!block->in_use) {
      return;
    }
    if (stale.contains(block->ptr)) {
      check_no_other_stream_uses(block);
      return;
    }
    const auto saved = checkpoint.segments.find(beginning_of(*segment.first));
    const bool kept = saved != checkpoint.segments.end() &&
                      std::ranges::any_of(saved->second.blocks, [&](const auto& state) {
                        return state.in_use && is_same(state, *block);
                      });
    TORCH_CHECK(
        kept,
        "Any stale tensors which are being manually freed must be passed to set checkpoint: the memory "
        "at ",
        block->ptr, " is in use, and is free in the checkpoint");
  });
}

void Pool::check_no_other_stream_uses(const Block* block) {
  for (const c10::Stream other : block->used_by) {
    TORCH_CHECK(query_stream(other), "stream ", other.id(), " may still use the stale memory at ", block->ptr,
                " (record_stream): synchronize the stream first");
  }
}

std::vector<Block*> Pool::restore(const PoolCheckpoint& checkpoint, const std::unordered_set<void*>& stale) {
  std::lock_guard<std::mutex> lock(mutex_);
  PrivatePool& pool = settled_private(checkpoint.pool);
  check_restorable(pool, checkpoint, stale);
  for (auto& [stream, cache] : pool.caches) {
    drop_cached(*cache);
  }
  std::vector<Block*> unowned;
  for (auto& [address, segment] : segments_) {
    if (segment.first->home == &pool) {
      const auto saved = checkpoint.segments.find(address);
      const size_t size = segment.first->region == nullptr ? segment.size : segment.first->size;
      const PoolCheckpoint::BlockState whole{address, size, 0, false, true};
      restore_segment(segment, saved == checkpoint.segments.end() ? std::vector{whole} : saved->second.blocks,
                      stale, unowned);
    }
  }
  return unowned;
}

// Removes all blocks from the cache; restore_segment adds the new ones.
void Pool::drop_cached(Cache& cache) {
  for (Block*& head : cache.lists) {
    for (; head != nullptr; head = head->next_cached) {
      count_not_idle(head);
    }
  }
  for (Tree* tree : {&cache.small, &cache.large}) {
    std::ranges::for_each(*tree, [&](const Block* block) { count_not_idle(block); });
    tree->clear();
  }
}

// A block that is in use now and in the checkpoint stays the same object: its owner keeps a pointer to it.
void Pool::restore_segment(Segment& segment, const std::vector<PoolCheckpoint::BlockState>& states,
                           const std::unordered_set<void*>& stale, std::vector<Block*>& unowned) {
  const c10::StreamId stream = segment.first->stream;
  PrivatePool* const home = segment.first->home;
  const bool small = segment.first->small;
  memory_check::Region* const region = segment.first->region;  // of the only block
  std::map<void*, Block*> old;
  for (Block* block = segment.first; block != nullptr; block = block->after) {
    old.emplace(block->ptr, block);
  }
  std::map<void*, Block*> kept;
  for (const auto& state : states) {
    const auto found = old.find(state.ptr);
    if (found != old.end() && found->second->in_use && state.in_use && is_same(state, *found->second)) {
      kept.insert(old.extract(found));
    }
  }
  for (const auto& [ptr, block] : old) {
    if (block->in_use) {
      count_freed(block);
      count_retired(block);
    }
    delete block;
  }
  Cache& cache = cache_of(stream, home);
  Block* before = nullptr;
  for (const auto& state : states) {
    const auto found = kept.find(state.ptr);
    const bool is_new = found == kept.end();
    Block* block = is_new ? make_block(state.ptr, state.size, stream, home, small) : found->second;
    block->region = region;
    block->before = before;
    block->after = nullptr;
    (before == nullptr ? segment.first : before->after) = block;
    before = block;
    if (state.in_use && is_new) {
      block->requested = state.requested;
      block->in_use = true;
      if (C10_UNLIKELY(region != nullptr)) {
        region->restore(block->ptr, block->requested);
      }
      count_allocated(block);
    }
    if (state.in_use && (is_new || stale.contains(state.ptr))) {
      block->used_by.clear();
      unowned.push_back(block);
    }
  }
  // Not before: is_whole_segment needs the neighbors.
  auto state = states.begin();
  for (Block* block = segment.first; block != nullptr; block = block->after, ++state) {
    if (block->in_use) {
      continue;
    }
    count_idle(block);
    if (state->merged) {
      block->free = true;
      block->idle_since = clock_;
      cache.tree(block->small).insert(block);
    } else {
      block->next_cached = std::exchange(cache.lists[block->size / kGranularity], block);
    }
  }
}

}  // namespace openreg
