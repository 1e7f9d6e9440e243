// Which operators ran on the CPU for want of a kernel. Only in a build without the host engine.
//
// Thread safety: from any thread.
#pragma once

#include "common/export.h"

#include <cstdint>
#include <map>
#include <string>

namespace openreg {

/// How often each operator has fallen back since the process began, by qualified name.
OPENREG_EXPORT std::map<std::string, uint64_t> cpu_fallbacks();

}  // namespace openreg
