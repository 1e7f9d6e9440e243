#include "stream/schedule.h"

#include "common/check.h"

#include <atomic>

namespace openreg {
namespace {

constexpr int kUnknown = -1;
std::atomic<int> cached_schedule{kUnknown};

}  // namespace

std::pair<orSchedule, uint64_t> schedule_and_seed() {
  orSchedule schedule{};
  uint64_t seed = 0;
  OR_CHECK(orGetSchedule(&schedule, &seed));
  return {schedule, seed};
}

orSchedule schedule() {
  int known = cached_schedule.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(known == kUnknown)) {
    known = schedule_and_seed().first;
    cached_schedule.store(known, std::memory_order_relaxed);
  }
  return static_cast<orSchedule>(known);
}

void set_schedule(orSchedule schedule, uint64_t seed) {
  OR_CHECK(orSetSchedule(schedule, seed));
  cached_schedule.store(schedule, std::memory_order_relaxed);
}

}  // namespace openreg
