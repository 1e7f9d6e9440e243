// The slow path of calls while there are fault rules or lost devices: applies the rules. See
// openreg/faults.h.
//
// Thread safety: all functions may be called from any thread. No lock is held while a hook of the program
// runs or a thread is held.
#pragma once

#include "runtime.h"

#include <cstdint>

namespace openreg {

/// What a rule does to a copy that succeeds.
struct Corruption {
  bool present = false;
  uint64_t bit = 0;  // modulo the size of the copy
};

/// Returns an error if the call must not continue. `corruption` is NULL unless the call is a copy.
[[nodiscard]] orError_t apply_faults(Runtime& runtime, const Call& call, Corruption* corruption);
/// Flips the bit of a copy that was submitted to `stream`, or has been finished if `wait` is set.
[[nodiscard]] orError_t corrupt_copy(Runtime& runtime, Corruption corruption, orStream_t stream, void* dst,
                                     size_t size, bool wait);
/// See orFaultsSuspend.
[[nodiscard]] bool faults_suspended();
/// Ends the loss of a device.
void restore_device(int device);

}  // namespace openreg
