// Where in the user's program an operator was launched, for the errors that come later.
//
// Only Python knows, and this library does not know Python: the bindings say how to ask. Asking costs some
// hundred nanoseconds, so it is done for operators whose kernels look at data and may refuse it.
#pragma once

#include "common/export.h"

#include <string>

namespace openreg {

using LaunchSiteFunction = std::string (*)();

/// `function` answers "file.py:12 in name" for the calling thread, or nothing; it never throws.
OPENREG_EXPORT void set_launch_site_function(LaunchSiteFunction function);

/// The answer; empty without a function.
std::string launch_site();

}  // namespace openreg
