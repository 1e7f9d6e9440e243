// Flags for the diagnostics of operator calls.
//
// One atomic word holds all flags, so that an operator call with diagnostics off costs one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>

namespace openreg::debug_flags {

enum Flag : uint32_t {
  kStatistics = 1,  // see op_stats.h
  kSyncs = 2,       // reports synchronizations; see sync_debug.h
  kFallbacks = 4,   // reports CPU fallbacks; see sync_debug.h
  kRaces = 8,       // see tensor_access.h
  kWatchdog = 16,   // see watched_launch.h
};

inline std::atomic<uint32_t> flags{0};

inline uint32_t now() {
  return flags.load(std::memory_order_relaxed);
}

inline void set(Flag flag, bool on) {
  if (on) {
    flags.fetch_or(flag, std::memory_order_relaxed);
  } else {
    flags.fetch_and(~static_cast<uint32_t>(flag), std::memory_order_relaxed);
  }
}

}  // namespace openreg::debug_flags
