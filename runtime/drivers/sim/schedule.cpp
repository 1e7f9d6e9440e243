#include "schedule.h"

#include <atomic>
#include <chrono>

namespace openreg::sim {
namespace {

std::atomic<orSchedule> schedule{orScheduleAsync};
std::atomic<uint64_t> seed{0};
std::atomic<uint64_t> submissions{0};
std::atomic<uint64_t> picks{0};

// The output function of splitmix64.
uint64_t scramble(uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

uint64_t draw(std::atomic<uint64_t>& counter) {
  return scramble(scramble(seed.load(std::memory_order_relaxed)) +
                  counter.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace

void set_schedule(orSchedule new_schedule, uint64_t new_seed) {
  seed.store(new_seed, std::memory_order_relaxed);
  submissions.store(0, std::memory_order_relaxed);
  picks.store(0, std::memory_order_relaxed);
  schedule.store(new_schedule, std::memory_order_release);
}

orSchedule current_schedule() {
  return schedule.load(std::memory_order_acquire);
}

Delay draw_delay() {
  if (current_schedule() != orScheduleAdversarial) [[likely]]
    return {};
  const uint64_t chance = draw(submissions);
  Delay delay;
  delay.yields = chance & 1;
  // Half of the operations have no delay, a quarter up to 0.1 ms, the others up to 1 ms or 5 ms.
  switch ((chance >> 1) & 7) {
    case 0:
      delay.not_before_ns = 5'000'000;
      break;
    case 1:
      delay.not_before_ns = 1'000'000;
      break;
    case 2:
    case 3:
      delay.not_before_ns = 100'000;
      break;
    default:
      return delay;
  }
  delay.not_before_ns =
      now_ns() + static_cast<int64_t>((chance >> 8) % static_cast<uint64_t>(delay.not_before_ns));
  return delay;
}

uint32_t draw_pick(uint32_t count) {
  if (count < 2 || current_schedule() != orScheduleAdversarial) return 0;
  return static_cast<uint32_t>(draw(picks) % count);
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace openreg::sim
