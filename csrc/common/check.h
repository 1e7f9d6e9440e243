// Converts runtime error codes into C++ exceptions with the runtime's message.
//
//   OR_CHECK(orSetDevice(7));
//   -> torch.AcceleratorError: openreg error: invalid device ordinal: ... (orErrorInvalidDevice from
//   orSetDevice)
#pragma once

#include "common/export.h"

#include <c10/util/Exception.h>
#include <openreg/openreg.h>

#include <string_view>

namespace openreg {

// Whether the text of an expression begins with a name of the runtime, such as orMalloc, which messages
// contain.
consteval bool names_runtime_call(std::string_view text) {
  return text.size() > 2 && text.starts_with("or") && text[2] >= 'A' && text[2] <= 'Z';
}

// Throws OutOfMemoryError for errors of the out-of-memory class, RuntimeError for orErrorForked (an error of
// the process, not of the device), and AcceleratorError for all others. `call` is the source text of the
// failed call.
[[noreturn]] OPENREG_EXPORT void raise(orError_t error, const char* call, c10::SourceLocation where);

}  // namespace openreg

#define OR_CHECK(call) OR_CHECK_NAMED_(call, #call)

// For a result that was examined before: `function` is the function of the runtime that returned it.
#define OR_CHECK_RESULT(result, function) OR_CHECK_NAMED_(result, #function)

#define OR_CHECK_NAMED_(result, name)                                                           \
  do {                                                                                          \
    static_assert(::openreg::names_runtime_call(name), "name the call with OR_CHECK_RESULT");   \
    const orError_t or_error_ = (result);                                                       \
    if (C10_UNLIKELY(or_error_ != orSuccess)) {                                                 \
      ::openreg::raise(or_error_, name, {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}); \
    }                                                                                           \
  } while (false)
