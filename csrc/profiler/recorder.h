// Collects the runtime's trace: every launch of the process while recording is on, with the operator and the
// record_function ranges in which it was made.
//
// Note [Collecting trace records]
// A launch is reported on the launching thread, its completion on the thread that ran it. Each thread appends
// to its own lists, so threads do not contend; stop_recording joins the records by their correlation id.
// Completions after stop_recording are dropped: a caller that needs them synchronizes the device first.
//
// Thread safety: one caller at a time starts and stops recording. All other functions may be called from any
// thread and affect only that thread.
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

/// What one rank contributes to a collective.
struct Collective {
  std::string name;   // "all_reduce"
  std::string group;  // the name of the process group
  int group_size;
  int rank;
  uint64_t sequence;
  std::string dtype;  // empty: without a tensor
  uint64_t bytes;
};

inline constexpr int32_t kExternalStreams = 1000;

/// Nanoseconds of CLOCK_MONOTONIC.
struct Interval {
  int64_t start_ns;
  int64_t end_ns;
};

struct Activity {
  orTraceKind kind;
  std::string name;
  const char* function;  // the called function of openreg.h
  int32_t device;        // -1 for ranges and marks
  int32_t stream;        // torch's number; for external streams, kExternalStreams + the runtime's id
  uint64_t correlation;
  size_t bytes;
  orMemcpyKind copy_kind;
  int32_t thread;                          // the launching thread (gettid)
  uint64_t operation;                      // torch's id of the operator in progress; 0: none
  std::shared_ptr<const OpenRange> range;  // the innermost, or null
  std::optional<Interval> call;            // the launching call; none for synchronizations and ranges
  std::optional<Interval> work;            // the execution; none if it has not finished
  orError_t result = orSuccess;
  std::shared_ptr<const Collective> collective;  // null: not one
};

/// Returns orErrorNotPermitted if the runtime's trace has another subscriber.
[[nodiscard]] OPENREG_EXPORT orError_t start_recording();
/// The launches since start_recording, in no particular order.
OPENREG_EXPORT std::vector<Activity> stop_recording();

/// Whether recording is on.
bool is_recording();

/// While it exists, launches of this thread are recorded as this collective.
class CollectiveScope {
 public:
  explicit CollectiveScope(Collective collective);
  ~CollectiveScope();
  CollectiveScope(const CollectiveScope&) = delete;
  CollectiveScope& operator=(const CollectiveScope&) = delete;
};

/// The operator in progress on this thread, by torch's id, and the ranges.
void push_operation(uint64_t id);
void pop_operation();
void push_range(uint64_t id);
void pop_range();

}  // namespace openreg
