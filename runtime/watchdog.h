// The thread and the hooks of the watchdog; see openreg/watchdog.h.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "openreg/watchdog.h"

#include <string>

namespace openreg {

/// The text of a hook; empty without it.
std::string hooked_text(void (*orWatchdogHooks::*hook)(char*, size_t));

/// Starts the thread if it does not run in this process. Not at orWatchdogSet: the process may fork until it
/// uses a device.
void ensure_watchdog_thread();

}  // namespace openreg
