// The last error of the calling thread, and its message.
//
// Functions here access only thread-local state, take no lock and allocate no memory, so they work in a
// forked child and when the host is out of memory.
#pragma once

#include "openreg/openreg.h"

#include <new>

namespace openreg {

/// Sets the last error and the message of this thread; returns the code. Invalid UTF-8 in the message is
/// replaced.
[[nodiscard]] [[gnu::format(printf, 2, 3)]] orError_t fail(orError_t code, const char* format, ...);

/// Returns orErrorNotReady with a message, or its general text; does not set the last error.
[[nodiscard]] orError_t not_ready(const char* message = nullptr);

/// orHost.report: sets the message of the error that the driver is about to return.
void report_from_driver(const char* message);

[[nodiscard]] orError_t fail_from_driver(orError_t code);

/// Converts the result of a driver entry; a failure gets the driver's message, if it reported one.
[[nodiscard]] inline orError_t from_driver(orError_t code) {
  return code == orSuccess ? orSuccess : fail_from_driver(code);
}

/// Fails if `entry` of the driver returned orSuccess without the object that it creates.
[[nodiscard]] orError_t check_created(const void* object, const char* entry, const char* driver);

[[nodiscard]] orError_t fail_from_exception() noexcept;

/// Wraps the body of an extern "C" function: converts exceptions to error codes.
template <typename Body>
[[nodiscard]] orError_t noexcept_boundary(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return fail_from_exception();
  }
}

}  // namespace openreg

/// Returns from the enclosing function if `expression` is an error.
#define OR_RETURN_IF_ERROR(expression)                            \
  do {                                                            \
    if (const orError_t or_error = (expression)) return or_error; \
  } while (false)
