// What the files that submit work share: running a kernel at once and in stream order, for orRunKernel and
// for copies that wait anyway, and telling the trace.
#pragma once

#include "runtime.h"
#include "trace.h"

namespace openreg {

/// `work` is told of the finish, whatever it is; NULL without a trace. The argument block is not copied.
[[nodiscard]] orError_t run_now(Runtime& runtime, const StreamInfo& stream, const orKernel& kernel,
                                void* args, TracedWork* work);

/// As TracedWork::begin; but NULL for work that is captured, of which each launch of the graph tells.
[[nodiscard]] inline TracedWork* begin_traced(Runtime& runtime, const StreamInfo& stream,
                                              const char* function, orTraceKind kind, const char* name,
                                              size_t size = 0, orMemcpyKind copy_kind = orMemcpyDefault) {
  if (!trace_subscriber.load(std::memory_order_acquire)) [[likely]]
    return nullptr;
  if (runtime.captured(stream)) return nullptr;
  return TracedWork::begin(function, kind, name, stream.device, stream.id, size, copy_kind);
}

}  // namespace openreg
