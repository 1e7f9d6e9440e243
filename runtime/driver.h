// The driver of the process: which one, loaded once. See Note [Loading] in openreg/driver.h.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "openreg/driver.h"

#include <string>

namespace openreg {

struct LoadedDriver {
  orDriver table{};  // its name is `name`
  std::string name;  // as UTF-8
  std::string path;  // empty: the embedded driver
  uint32_t table_size = 0;
};

/// Loads the driver at the first call and returns it, or NULL and sets `error`. Later calls return the same
/// result. The driver is not initialized.
const LoadedDriver* load_driver(orError_t& error);

}  // namespace openreg
