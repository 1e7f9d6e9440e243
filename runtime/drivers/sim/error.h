// Messages of errors that an entry of the table is about to return.
#pragma once

#include "openreg/driver.h"

namespace openreg::sim {

/// Sets the receiver of messages. Called once, before any other entry.
void set_host(const orHost* host);

/// Reports the message and returns the code.
[[nodiscard]] [[gnu::format(printf, 2, 3)]] orError_t fail(orError_t code, const char* format, ...);

}  // namespace openreg::sim
