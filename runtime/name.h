// The name of the device, and the settings of the runtime, whose names begin with it.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <string>

namespace openreg {

/// The environment variable of a setting: "OPENREG_SEED" for "SEED" and the default name.
std::string setting_name(const char* setting);

}  // namespace openreg
