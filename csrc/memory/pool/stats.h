// Counters for memory_stats: every quantity is counted in total, and separately for small and large blocks.
#pragma once

#include "common/version.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <map>

namespace openreg {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
#if OR_HAS_GRAPHS
using c10::CachingDeviceAllocator::DeviceStats;
#else
struct DeviceStats : c10::CachingDeviceAllocator::DeviceStats {
  std::map<c10::MempoolId_t, StatArray> reserved_bytes_by_private_pools;
  int64_t num_oom_rejections = 0;
};
#endif

inline c10::CachingAllocator::Stat& part(StatArray& stat, StatType type) {
  return stat[static_cast<size_t>(type)];
}

inline void add(StatArray& stat, bool small, size_t amount) {
  part(stat, StatType::AGGREGATE).increase(amount);
  part(stat, small ? StatType::SMALL_POOL : StatType::LARGE_POOL).increase(amount);
}

inline void subtract(StatArray& stat, bool small, size_t amount) {
  part(stat, StatType::AGGREGATE).decrease(amount);
  part(stat, small ? StatType::SMALL_POOL : StatType::LARGE_POOL).decrease(amount);
}

inline size_t in_total(const StatArray& stat) {
  return static_cast<size_t>(stat[static_cast<size_t>(StatType::AGGREGATE)].current);
}

template <typename Function>
void for_each_stat(DeviceStats& stats, Function function) {
  const auto each_of = [&](StatArray& array) {
    for (auto& stat : array) {
      function(stat);
    }
  };
  for (StatArray* array :
       {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
        &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
    each_of(*array);
  }
  for (auto& [pool, reserved] : stats.reserved_bytes_by_private_pools) {
    each_of(reserved);
  }
  function(stats.oversize_allocations);
  function(stats.oversize_segments);
}

}  // namespace openreg
