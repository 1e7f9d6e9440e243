// Errors: results of CUDA as codes and messages of the runtime.
#pragma once

#include "cuda_api.h"
#include "openreg/driver.h"

#include <exception>
#include <new>

namespace nv {

void set_host(const orHost* host);

/// Reports the message, formatted as by printf, and returns the code.
[[gnu::format(printf, 2, 3)]] orError_t fail(orError_t code, const char* format, ...);

/// The last message of this thread.
const char* last_message();

/// The code for a result that is not kSuccess, with a message that names the call.
[[gnu::cold]] orError_t fail_cuda(CUresult result, const char* call);

inline orError_t check(CUresult result, const char* call) {
  return result == kSuccess ? orSuccess : fail_cuda(result, call);
}

/// Calls `body`; an exception becomes a code. No exception crosses the table.
template <typename Body>
orError_t entry(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return orErrorOutOfHostMemory;
  } catch (const std::exception& error) {
    return fail(orErrorSystem, "%s", error.what());
  }
}

#define NV_CALL(name, ...) ::nv::check(::nv::cuda.name(__VA_ARGS__), #name)
#define NV_RETURN_IF_ERROR(expression)                                                   \
  do {                                                                                   \
    if (const orError_t nv_error = (expression); nv_error != orSuccess) return nv_error; \
  } while (false)

}  // namespace nv
