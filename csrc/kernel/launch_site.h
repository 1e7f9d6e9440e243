// The source line of an operator's launch in the user's Python program, for asynchronous errors.
//
// This library does not link Python; the bindings install the function. A call costs some hundred
// nanoseconds, so it is made only for operators whose kernels check data and may fail.
#pragma once

#include "common/export.h"

#include <string>

namespace openreg {

using LaunchSiteFunction = std::string (*)();

/// `function` returns "file.py:12 in name" for the calling thread, or an empty string; it must not throw.
OPENREG_EXPORT void set_launch_site_function(LaunchSiteFunction function);

/// The launch site of the calling thread; empty if no function is installed.
std::string launch_site();

}  // namespace openreg
