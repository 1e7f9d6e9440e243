// Converts runtime error codes into C++ exceptions with the runtime's message.
//
//   OR_CHECK(orSetDevice(7));
//   -> torch.AcceleratorError: openreg error: invalid device ordinal: ... (orErrorInvalidDevice from
//   orSetDevice)
#pragma once

#include "common/export.h"

#include <c10/util/Exception.h>
#include <openreg/openreg.h>

namespace openreg {

// Throws OutOfMemoryError for errors of the out-of-memory class, RuntimeError for orErrorForked (an error of
// the process, not of the device), and AcceleratorError for all others. `call` is the source text of the
// failed call.
[[noreturn]] OPENREG_EXPORT void raise(orError_t error, const char* call, c10::SourceLocation where);

}  // namespace openreg

#define OR_CHECK(call)                                                                           \
  do {                                                                                           \
    const orError_t or_error_ = (call);                                                          \
    if (C10_UNLIKELY(or_error_ != orSuccess)) {                                                  \
      ::openreg::raise(or_error_, #call, {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}); \
    }                                                                                            \
  } while (false)
