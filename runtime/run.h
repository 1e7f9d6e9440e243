// Helpers of the files that submit work: synchronous kernels in stream order, for orRunKernel and for
// synchronous copies, and trace records.
#pragma once

#include "runtime.h"
#include "trace.h"

namespace openreg {

/// Runs a kernel synchronously. `work` (NULL without a trace) is finished in every case. The argument block
/// is not copied.
[[nodiscard]] orError_t run_now(Runtime& runtime, const StreamInfo& stream, const orKernel& kernel,
                                void* args, TracedWork* work);

/// As TracedWork::begin, but returns NULL for captured work, which each launch of the graph traces.
[[nodiscard]] inline TracedWork* begin_traced(Runtime& runtime, const StreamInfo& stream,
                                              const char* function, orTraceKind kind, const char* name,
                                              size_t size = 0, orMemcpyKind copy_kind = orMemcpyDefault) {
  if (!trace_subscriber.load(std::memory_order_acquire)) [[likely]]
    return nullptr;
  if (runtime.captured(stream)) return nullptr;
  return TracedWork::begin(function, kind, name, stream.device, stream.id, size, copy_kind);
}

}  // namespace openreg
