// Running a kernel at once and in stream order, for orRunKernel and for copies that wait anyway.
#pragma once

#include "runtime.h"
#include "trace.h"

namespace openreg {

/// `work` is told of the finish, whatever it is; NULL without a trace. The argument block is not copied.
[[nodiscard]] orError_t run_now(Runtime& runtime, const StreamInfo& stream, const orKernel& kernel,
                                void* args, TracedWork* work);

}  // namespace openreg
