// Ranges and marks as in torch.cuda.nvtx: for the runtime's trace, and for torch.profiler as record_function
// ranges.
//
// Thread safety: all functions may be called from any thread; pushed ranges belong to the calling thread.
#pragma once

#include "common/export.h"

#include <cstdint>
#include <string>

namespace openreg {

/// Returns the depth of the range that begins or ends; 0 for the outermost.
OPENREG_EXPORT int range_push(const std::string& name);
OPENREG_EXPORT int range_pop();
/// A range that need not nest and may end on another thread. It is not reported to torch.profiler, whose
/// ranges nest.
OPENREG_EXPORT uint64_t range_start(const std::string& name);
OPENREG_EXPORT void range_end(uint64_t id);
OPENREG_EXPORT void mark(const std::string& name);

/// True while range_push reports to the profiler: emit.cpp must not push that range again.
bool reporting_to_profiler();

}  // namespace openreg
