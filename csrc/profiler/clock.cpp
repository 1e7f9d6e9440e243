#include "profiler/clock.h"

#include <ctime>
#include <limits>

namespace openreg {
namespace {

constexpr int kTries = 64;

int64_t read(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

ClockMap::ClockMap() : begin_(measure()), end_(begin_) {}

void ClockMap::finish() {
  end_ = measure();
}

// The sample whose two monotonic readings are closest together has the smallest error.
ClockMap::Sample ClockMap::measure() {
  Sample best{};
  int64_t narrowest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kTries; ++i) {
    const int64_t before = read(CLOCK_MONOTONIC);
    const int64_t real = read(CLOCK_REALTIME);
    const int64_t after = read(CLOCK_MONOTONIC);
    if (after - before < narrowest) {
      narrowest = after - before;
      const int64_t middle = before + (after - before) / 2;
      best = {middle, real - middle};
    }
  }
  return best;
}

int64_t ClockMap::unix_ns(int64_t monotonic_ns) const {
  const int64_t drift = end_.offset_ns - begin_.offset_ns;
  const int64_t span = end_.monotonic_ns - begin_.monotonic_ns;
  if (drift == 0 || span <= 0) {
    return monotonic_ns + begin_.offset_ns;
  }
  const double part = static_cast<double>(monotonic_ns - begin_.monotonic_ns) / static_cast<double>(span);
  return monotonic_ns + begin_.offset_ns + static_cast<int64_t>(static_cast<double>(drift) * part);
}

}  // namespace openreg
