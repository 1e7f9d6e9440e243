// Counts operators that fell back to the CPU. Only in a build without the host engine.
//
// Thread safety: may be called from any thread.
#pragma once

#include "common/export.h"

#include <cstdint>
#include <map>
#include <string>

namespace openreg {

/// Number of fallbacks of each operator since the process started, by qualified name.
OPENREG_EXPORT std::map<std::string, uint64_t> cpu_fallbacks();

}  // namespace openreg
