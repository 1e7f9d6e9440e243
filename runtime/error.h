// Errors: the calling thread's last one, and the words for it.
//
// Every function here touches only the calling thread's own state, takes no lock and allocates nothing, so
// that it works in a forked child and when memory has run out.
#pragma once

#include "openreg/openreg.h"

#include <new>

namespace openreg {

/// Remembers the code and the sentence for this thread; returns the code.
[[nodiscard]] [[gnu::format(printf, 2, 3)]] orError_t fail(orError_t code, const char* format, ...);

/// An answer rather than an error: leaves general words and does not become the last error.
[[nodiscard]] orError_t not_ready();

/// What drivers call through orHost.report: the words for the error they are about to return.
void report_from_driver(const char* words);

[[nodiscard]] orError_t fail_from_driver(orError_t code);

/// A driver's answer, with its words if it gave any.
[[nodiscard]] inline orError_t from_driver(orError_t code) {
  return code == orSuccess ? orSuccess : fail_from_driver(code);
}

[[nodiscard]] orError_t fail_from_exception() noexcept;

/// The body of every extern "C" function: no exception leaves it.
template <typename Body>
[[nodiscard]] orError_t noexcept_boundary(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return fail_from_exception();
  }
}

}  // namespace openreg

/// Returns from the enclosing function with the error of `expression`, if it is one.
#define OR_RETURN_IF_ERROR(expression)                            \
  do {                                                            \
    if (const orError_t or_error = (expression)) return or_error; \
  } while (false)
