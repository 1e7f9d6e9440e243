// A child that was forked after the first use of the device.
//
// Note [Forked children]
// The child has none of the parent's other threads, and a mutex that one of them held stays locked there. So
// no code of this library takes a lock in such a child. Everything that releases (deleters, destructors, ends
// of threads) asks in_forked_child() first and leaks: the parent owns the resource. Everything else asks the
// runtime, or check_not_forked(), before its first lock, and throws. The runtime's own functions refuse
// without a lock.
#pragma once

#include "common/check.h"

namespace openreg {

/// Never throws, never locks; one load.
inline bool in_forked_child() noexcept {
  return orIsForked() != 0;
}

/// Throws the runtime's refusal in such a child.
inline void check_not_forked() {
  if (C10_UNLIKELY(in_forked_child())) {
    int count = 0;
    OR_CHECK(orGetDeviceCount(&count));
  }
}

}  // namespace openreg
