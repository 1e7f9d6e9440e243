// Checks the table of a driver, which may be older or newer than this runtime. See Note [Compatibility] in
// driver.h.
#pragma once

#include "openreg/driver.h"

namespace openreg {

/// Copies the known fields of `given` into `table`; missing ones are NULL. `who` names the driver in
/// messages.
[[nodiscard]] orError_t negotiate(const orDriver& given, const char* who, orDriver& table);

}  // namespace openreg
