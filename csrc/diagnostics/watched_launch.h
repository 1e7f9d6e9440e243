// What the watchdog reports of a launch: its line and its arguments. See openreg/watchdog.h.
//
// While the watchdog is on, an operator call looks up its line before it takes any lock. A launch with
// arguments has a WatchedLaunch around its submission.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "common/call_site.h"
#include "common/export.h"
#include "diagnostics/debug_flags.h"

#include <string>

namespace openreg {

/// Whether operator calls look up their lines.
OPENREG_EXPORT void watch_launches(bool on);

inline bool launches_are_watched() {
  return (debug_flags::now() & debug_flags::kWatchdog) != 0;
}

/// RAII scope around the submission of a launch.
class WatchedLaunch {
 public:
  /// An empty `site` is that of the operator call.
  explicit WatchedLaunch(std::string arguments, std::string site = {});
  ~WatchedLaunch();
  WatchedLaunch(const WatchedLaunch&) = delete;
  WatchedLaunch& operator=(const WatchedLaunch&) = delete;

 private:
  friend std::string watched_arguments();
  friend std::string watched_site();
  std::string arguments_;
  std::string site_;
  const WatchedLaunch* outer_;
};

/// Of the launch that the calling thread submits; empty if it is unknown. They do not take the GIL.
OPENREG_EXPORT std::string watched_arguments();
OPENREG_EXPORT std::string watched_site();

/// The line of the calling thread. Autograd's threads have none: then it is the node that runs. Takes the
/// GIL.
CallSite site_of_call();

}  // namespace openreg
