// Releases the GIL while the host waits for the device.
//
// A kernel may need the GIL: a kernel that is written in Python, or one that allocates while stack traces are
// recorded. A thread that waits for such a kernel and holds the GIL deadlocks. Most torch bindings release
// the GIL; some do not (torch.accelerator.empty_cache, UntypedStorage.copy_). This library does not link
// Python; the bindings install hooks.
#pragma once

#include "common/export.h"

namespace openreg {

struct GilHooks {
  void* (*release)();            // returns NULL if the calling thread does not hold the GIL
  void (*acquire)(void* state);  // the result of release, not NULL
};

/// Called once, before the first wait.
OPENREG_EXPORT void set_gil_hooks(GilHooks hooks);

/// RAII scope for every wait on the device. Code inside must not use Python.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

  /// Whether this thread has ever waited for the device. Such a thread belongs to the program; it is not a
  /// worker thread of the runtime.
  static bool entered_by_this_thread() { return entered_; }

 private:
  static thread_local bool entered_;
  void* state_;
};

}  // namespace openreg
