// What a driver supports, as a table.
#pragma once

#include "openreg/driver.h"

namespace openreg::check {

/// Prints the driver, its devices, capabilities and optional entries; returns kPassed.
int describe(const orDriver& driver);

}  // namespace openreg::check
