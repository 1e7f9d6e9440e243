// From the runtime's clock to the one that torch's profiler writes down.
//
// The runtime reads CLOCK_MONOTONIC, which no administrator sets; the profiler's times are of CLOCK_REALTIME.
// The distance between the two is measured at both ends of a session, since a system may slew the second, and
// taken in proportion in between.
#pragma once

#include <cstdint>

namespace openreg {

class ClockMap {
 public:
  /// Measures at the beginning of a session.
  ClockMap();
  /// Measures at its end.
  void finish();
  /// Nanoseconds of CLOCK_MONOTONIC as nanoseconds since 1970.
  int64_t unix_ns(int64_t monotonic_ns) const;

 private:
  struct Sample {
    int64_t monotonic_ns;
    int64_t distance_ns;
  };
  static Sample measure();

  Sample begin_;
  Sample end_;
};

}  // namespace openreg
