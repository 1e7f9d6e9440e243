// Processes forked after the first use of the device.
//
// Note [Forked children]
// The child has none of the parent's other threads, and a mutex that one of them held stays locked in the
// child. This library therefore takes no lock in such a child. Code that releases resources (deleters,
// destructors, thread exit) checks in_forked_child() first and leaks: the parent owns the resource. All other
// code calls the runtime, or check_not_forked(), before its first lock, and throws. The runtime's functions
// return orErrorForked without taking a lock.
#pragma once

#include "common/check.h"

namespace openreg {

/// Never throws, never locks; one load.
inline bool in_forked_child() noexcept {
  return orIsForked() != 0;
}

/// Throws the runtime's error if this is a forked child.
inline void check_not_forked() {
  if (C10_UNLIKELY(in_forked_child())) {
    int count = 0;
    OR_CHECK(orGetDeviceCount(&count));
  }
}

}  // namespace openreg
