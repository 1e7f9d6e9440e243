// Submits launched work to a stream: operators of the host engine and compiled kernels.
#pragma once

#include <openreg/openreg.h>

#include <cstddef>

namespace openreg {

/// orLaunchKernel, and what every asynchronous launch needs: the process waits for the devices at exit, and a
/// thread that is far ahead of the stream is throttled. `captured`: the stream is captured into a graph.
[[nodiscard]] orError_t submit_kernel(orStream_t stream, const orKernel& kernel, const void* args,
                                      size_t args_size, bool captured);

/// Appends `context` to the message of a failed kernel, which keeps at least half of the buffer.
void append_context(char* why, size_t why_size, const char* context);

}  // namespace openreg
