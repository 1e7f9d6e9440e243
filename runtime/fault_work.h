// Faults of work on streams: work that is held, kernels that fail, bits that flip. See Note [Faults of work]
// in openreg/faults.h.
//
// Everything is made of entries that each driver has, submitted to the stream in front of or behind the work.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "runtime.h"

#include <cstdint>
#include <string>

namespace openreg {

/// How long a thread or stream is held: nanoseconds, or until FaultRules::is_released.
struct HoldTime {
  static constexpr int64_t kUntilReleased = -1;
  int64_t nanoseconds;
  uint64_t set;
  uint64_t epoch;
};

/// Holds the calling thread.
void hold_thread(HoldTime time);
/// Work that is submitted to the stream after this call does not start before the time is over. `name` is
/// that of the work, for reports.
[[nodiscard]] orError_t hold_stream(Runtime& runtime, const StreamInfo& stream, HoldTime time,
                                    const char* name);
/// Ends the hangs of a stream, which fails. No effect on a hang that occupies a thread.
void fail_held(int device, uint64_t stream, const std::string& why);
/// Continues the threads and streams that are released now.
void continue_released();

/// Submits a kernel that fails, under the name of another.
[[nodiscard]] orError_t submit_failure(Runtime& runtime, const StreamInfo& stream, const char* name,
                                       const std::string& why);
/// Runs it synchronously, and returns its failure.
[[nodiscard]] orError_t run_failure(Runtime& runtime, const StreamInfo& stream, const char* name,
                                    const std::string& why);

/// Flips a bit of the byte at `address`, behind the work submitted so far. `on_device`: the address is device
/// memory, else host memory.
[[nodiscard]] orError_t flip_bit(Runtime& runtime, const StreamInfo& stream, void* address, unsigned bit,
                                 bool on_device);

}  // namespace openreg
