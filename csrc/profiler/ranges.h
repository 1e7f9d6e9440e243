// Ranges and marks in the way of torch.cuda.nvtx: for the runtime's trace, and for torch.profiler as
// record_function ranges.
//
// Thread safety: any thread; ranges that are pushed are the thread's own.
#pragma once

#include "common/export.h"

#include <cstdint>
#include <string>

namespace openreg {

/// The depth of the range that is begun or ended, 0 for the outermost.
OPENREG_EXPORT int range_push(const std::string& name);
OPENREG_EXPORT int range_pop();
/// A range that need not nest and may end on another thread. The profiler, whose ranges nest, is not told.
OPENREG_EXPORT uint64_t range_start(const std::string& name);
OPENREG_EXPORT void range_end(uint64_t id);
OPENREG_EXPORT void mark(const std::string& name);

/// True while range_push tells the profiler: whoever turns what is recorded into ranges has this one already.
bool telling_profiler();

}  // namespace openreg
