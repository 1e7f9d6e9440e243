// Waiting for the device.
//
// Python's lock: a kernel may need it, one that is written in Python or one that allocates while stacks are
// recorded, so whoever waits for kernels with the lock held waits for ever. Most of torch's bindings let go
// of it, and some do not (torch.accelerator.empty_cache, UntypedStorage.copy_). This library does not know
// Python: the bindings say how.
#pragma once

#include "common/export.h"

namespace openreg {

struct GilHooks {
  void* (*release)();       // NULL if the calling thread does not have the lock
  void (*take)(void* was);  // what release returned, if that was not NULL
};

/// Called once, before anybody waits.
OPENREG_EXPORT void set_gil_hooks(GilHooks lock);

/// Around everything that waits for the device. Nothing of Python may be touched inside.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

  /// Whether this thread has waited: then it is the program's, and not a worker of the runtime.
  static bool entered_by_this_thread() { return entered_; }

 private:
  static thread_local bool entered_;
  void* was_;
};

}  // namespace openreg
