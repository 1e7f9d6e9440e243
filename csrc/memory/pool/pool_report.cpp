// Reports of a pool: statistics, snapshots, and out-of-memory errors.
#include "common/check.h"
#include "common/setting.h"
#include "device/device.h"
#include "memory/pool/pool.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <unordered_set>

namespace openreg {
namespace {

using c10::CachingAllocator::format_size;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;

constexpr size_t kExabyte = size_t{1} << 60;

struct Observers {
  std::mutex mutex;  // guards all
  std::vector<OutOfMemoryObserver> all;
};

Observers& observers() {
  static auto* made = new Observers;
  return *made;
}

std::vector<OutOfMemoryObserver> copy_observers() {
  std::lock_guard<std::mutex> lock(observers().mutex);
  return observers().all;
}

}  // namespace

void add_out_of_memory_observer(OutOfMemoryObserver observer) {
  std::lock_guard<std::mutex> lock(observers().mutex);
  observers().all.push_back(std::move(observer));
}

DeviceStats Pool::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  DeviceStats stats = stats_;
  stats.max_split_size = static_cast<int64_t>(settings_.max_split_size);
  return stats;
}

// Statistics of removed private pools are kept until a reset, as in torch.cuda.
void Pool::remove_stats_of_old_pools() {
  auto& known = stats_.reserved_bytes_by_private_pools;
  for (auto entry = known.begin(); entry != known.end();) {
    entry = private_.contains(entry->first) ? std::next(entry) : known.erase(entry);
  }
}

void Pool::reset_peak_stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  remove_stats_of_old_pools();
  for_each_stat(stats_, [](auto& stat) { stat.reset_peak(); });
}

void Pool::reset_accumulated_stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  remove_stats_of_old_pools();
  for_each_stat(stats_, [](auto& stat) { stat.reset_accumulated(); });
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
  stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = 0;
  stats_.num_device_free = 0;
}

void Pool::configure(const Settings& settings) {
  std::lock_guard<std::mutex> lock(mutex_);
  settings_ = settings;
}

void Pool::set_caching(bool caching) {
  std::lock_guard<std::mutex> lock(mutex_);
  caching_ = caching;
}

void Pool::record_history(const HistoryOptions& options, bool clear) {
  std::lock_guard<std::mutex> lock(mutex_);
  history_.set(options, clear);
}

PoolSnapshot Pool::snapshot(bool with_history) {
  const Context context = history_.gather(RecordContext::ALLOC);
  std::lock_guard<std::mutex> lock(mutex_);
  std::unordered_set<const Block*> waiting;
  for (const auto* all : {&waiting_, &deferred_}) {
    for (const Waiting& one : *all) {
      waiting.insert(one.block);
    }
  }
  PoolSnapshot snapshot;
  size_t total = 0;
  for (const auto& [address, segment] : segments_) {
    SegmentInfo& info = snapshot.segments.emplace_back();
    info.device = device_;
    info.address = reinterpret_cast<size_t>(address);
    info.total_size = segment.size;
    info.stream = reinterpret_cast<void*>(segment.first->stream);
    info.is_large = !segment.first->small;
    if (segment.first->home != nullptr) {
      info.owner_private_pool_id = segment.first->home->id;
    }
    info.context_when_allocated = segment.context;
    for (const Block* block = segment.first; block != nullptr; block = block->after) {
      BlockInfo& piece = info.blocks.emplace_back();
      piece.size = block->size;
      piece.allocated = block->in_use;
      piece.active = block->in_use || waiting.contains(block);
      piece.requested_size = piece.active ? block->requested : 0;
      piece.context_when_allocated = block->context;
      info.requested_size += piece.requested_size;
      info.allocated_size += piece.allocated ? piece.size : 0;
      info.active_size += piece.active ? piece.size : 0;
    }
    total += segment.size;
  }
  history_.note(TraceEntry::SNAPSHOT, 0, total, 0, context);
  if (with_history) {
    snapshot.history = history_.entries();
  }
  return snapshot;
}

Context Pool::allocation_context(void* ptr) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto segment = segments_.upper_bound(ptr);
  if (segment == segments_.begin()) {
    return nullptr;
  }
  --segment;
  for (const Block* block = segment->second.first; block != nullptr && block->ptr <= ptr;
       block = block->after) {
    if (block->ptr == ptr) {
      return block->in_use ? block->context : nullptr;
    }
  }
  return nullptr;
}

uint64_t Pool::recorded_allocations() {
  std::lock_guard<std::mutex> lock(mutex_);
  return recorded_allocations_;
}

std::vector<LiveAllocation> Pool::allocations_since(uint64_t number) {
  std::vector<LiveAllocation> found;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [address, segment] : segments_) {
      for (const Block* block = segment.first; block != nullptr; block = block->after) {
        if (block->in_use && block->allocation > number) {
          found.push_back({block->allocation, block->ptr, block->requested, block->context});
        }
      }
    }
  }
  std::ranges::sort(found, {}, &LiveAllocation::number);
  return found;
}

// Costs one thread-local test if no memory profiler is active.
void Pool::report_to_profiler(const Block* block, int sign) const {
  c10::reportMemoryUsageToProfiler(block->ptr, sign * static_cast<int64_t>(block->size),
                                   in_total(stats_.allocated_bytes), in_total(stats_.reserved_bytes),
                                   c10::Device(kDevice, device_));
}

size_t Pool::largest_free() const {
  size_t largest = 0;
  for (const auto& [stream, cache] : caches_) {
    for (const Tree* tree : {&cache->small, &cache->large}) {
      largest = tree->empty() ? largest : std::max(largest, (*tree->rbegin())->size);
    }
  }
  return largest;
}

void Pool::throw_out_of_memory(size_t requested, size_t length, const Context& context, Lock& lock) {
  ++stats_.num_ooms;
  const std::string refusal = orGetLastErrorMessage();  // of orMalloc
  size_t free = 0;
  size_t total = 0;
  OR_CHECK(orMemGetInfo(&free, &total));
  const size_t limit = this->limit();
  const size_t reserved = in_total(stats_.reserved_bytes);
  const size_t in_use = in_total(stats_.allocated_bytes);
  const size_t cached = reserved - in_use;
  history_.note(TraceEntry::OOM, free, requested, 0, context);
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(requested), in_use, reserved,
                                   c10::Device(kDevice, device_));
  const char* or_increase = is_simulated() ? ", or increase OPENREG_MEMORY." : ".";
  std::string help;
  if (length > total) {
    help = c10::str("The request exceeds the total memory of the device: allocate less", or_increase);
  } else if (limit < total && reserved + length > limit) {
    help =
        "The request exceeds the limit of set_per_process_memory_fraction: raise the fraction, or free "
        "tensors.";
  } else if (free >= length) {
    help = c10::str("The device has refused the allocation: ", refusal, ".");
  } else if (cached >= requested) {
    help = c10::str("Enough memory is cached, but it is fragmented: free tensors, or set ",
                    setting_name("ALLOC_CONF"), "=max_split_size_mb:<size> to avoid splitting large blocks.");
  } else {
    help = c10::str("Free tensors, use smaller tensors", or_increase);
  }
  const std::string largest = format_size(largest_free());
  lock.unlock();
  for (const OutOfMemoryObserver& observer : copy_observers()) {
    observer(device_, requested, limit, free);
  }
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, orGetDeviceName(), " out of memory. Tried to allocate ",
      requested > kExabyte ? "more than 1EB memory" : format_size(requested), ". GPU ",
      static_cast<int>(device_), " has a total capacity of ", format_size(total), " of which ",
      format_size(free), " is free. ",
      limit < total ? format_size(limit) + " allowed by set_per_process_memory_fraction. " : "",
      "Of the allocated memory ", format_size(in_use), " is allocated by PyTorch, and ", format_size(cached),
      " is reserved by PyTorch but unallocated, the largest free block has ", largest, ". ", help);
}

}  // namespace openreg
