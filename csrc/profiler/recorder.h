// The runtime's trace, collected: every launch of the process while recording is on, each with the operator
// and the ranges of the program in which it was made.
//
// Note [Collecting]
// A launch is told on the launching thread, its finish on whatever thread ran it. Each thread appends to
// lists of its own, so that threads do not meet; stop_recording puts the two halves together by their
// correlation number. What a finish tells after stop_recording is dropped: whoever wants it waits for the
// device first.
//
// Thread safety: recording is started and stopped by one caller at a time; everything else is any thread's,
// and about that thread alone.
#pragma once

#include "common/export.h"

#include <openreg/openreg.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace openreg {

/// A record_function range that was open at a launch.
struct OpenRange {
  uint64_t id;
  std::shared_ptr<const OpenRange> outer;
};

inline constexpr int32_t kForeignStreams = 1000;

/// Nanoseconds of CLOCK_MONOTONIC.
struct Interval {
  int64_t start_ns;
  int64_t end_ns;
};

struct Activity {
  orTraceKind kind;
  std::string name;
  const char* function;  // of openreg.h
  int32_t device;        // -1 for ranges and marks
  int32_t stream;        // torch's number, or kForeignStreams and the runtime's if it is not one of ours
  uint64_t correlation;
  size_t bytes;
  orMemcpyKind copy_kind;
  int32_t thread;                          // that launched it, as the system numbers threads
  uint64_t operation;                      // torch's number of the operator in progress; 0: none
  std::shared_ptr<const OpenRange> range;  // the innermost, or null
  std::optional<Interval> call;            // of the launching call; synchronizations and ranges have none
  std::optional<Interval> work;            // when it ran; none if it had not finished
  orError_t result = orSuccess;
};

/// orErrorNotPermitted if somebody else has subscribed to the runtime's trace.
[[nodiscard]] OPENREG_EXPORT orError_t start_recording();
/// What was launched since, in no particular order.
OPENREG_EXPORT std::vector<Activity> stop_recording();

/// The operator that this thread is in, by torch's number, and the ranges.
void push_operation(uint64_t id);
void pop_operation();
void push_range(uint64_t id);
void pop_range();

}  // namespace openreg
