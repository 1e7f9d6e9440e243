// Whether anybody watches the operators: what an operator asks before it tells the monitor anything.
//
// One word for all reasons to watch, so that nobody watching costs a call one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>

namespace openreg::debug_flags {

enum Reason : uint32_t {
  kStatistics = 1,  // see op_stats.h
  kWaits = 2,       // see sync_debug.h
  kBorrowed = 4,    // see sync_debug.h
};

inline std::atomic<uint32_t> reasons{0};

inline uint32_t now() {
  return reasons.load(std::memory_order_relaxed);
}

inline void set(Reason reason, bool on) {
  if (on) {
    reasons.fetch_or(reason, std::memory_order_relaxed);
  } else {
    reasons.fetch_and(~static_cast<uint32_t>(reason), std::memory_order_relaxed);
  }
}

}  // namespace openreg::debug_flags
