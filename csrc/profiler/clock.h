// Converts the runtime's timestamps to the clock of torch's profiler.
//
// The runtime reads CLOCK_MONOTONIC, which cannot be set; the profiler uses CLOCK_REALTIME. The offset
// between the two is measured at both ends of a session, because the system may slew CLOCK_REALTIME, and
// interpolated in between.
#pragma once

#include <cstdint>

namespace openreg {

class ClockMap {
 public:
  /// Measures the offset at the beginning of a session.
  ClockMap();
  /// Measures the offset at its end.
  void finish();
  /// Converts nanoseconds of CLOCK_MONOTONIC to nanoseconds since 1970.
  int64_t unix_ns(int64_t monotonic_ns) const;

 private:
  struct Sample {
    int64_t monotonic_ns;
    int64_t offset_ns;
  };
  static Sample measure();

  Sample begin_;
  Sample end_;
};

}  // namespace openreg
