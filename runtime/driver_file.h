// Opens the shared library of a driver.
//
// The file is checked before it is loaded: the dynamic loader reports a library for another architecture as a
// missing file, and a truncated one may terminate the process with SIGBUS.
#pragma once

#include "openreg/driver.h"

namespace openreg {

/// A driver's file, and who has chosen it, for messages.
struct DriverFile {
  const char* path;
  const char* origin;  // such as "OPENREG_DRIVER"
};

/// Loads the library and calls its orGetDriver. The library is never unloaded. Errors name the file.
[[nodiscard]] orError_t open_driver_file(const DriverFile& file, const orDriver*& table);

}  // namespace openreg
