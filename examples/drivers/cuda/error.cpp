// Another chip: the only file that knows its error codes. What matters is the class of each (error.h of
// openreg): out of memory makes the caching allocator free its blocks and retry; device lost says that the
// process has to end.
#include "error.h"

#include <cstdarg>
#include <cstdio>

namespace nv {
namespace {

const orHost* host = nullptr;
thread_local char message[1024] = "";

// Errors after which every call in the context fails: a function accessed an invalid address, the GPU was
// reset.
bool is_sticky(CUresult result) {
  constexpr CUresult kSticky[] = {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721};
  for (const CUresult one : kSticky) {
    if (one == result) return true;
  }
  return false;
}

orError_t code_of(CUresult result) {
  if (is_sticky(result)) return orErrorDeviceLost;
  if (result >= kErrorFirstOfCapture && result <= kErrorLastOfCapture) return orErrorCapture;
  switch (result) {
    case kErrorInvalidValue:
    case kErrorInvalidImage:
    case kErrorNoBinary:
    case kErrorInvalidPtx:
    case kErrorUnsupportedPtx:
      return orErrorInvalidValue;
    case kErrorOutOfMemory:
      return orErrorOutOfMemory;
    case kErrorNotReady:
      return orErrorNotReady;
    case kErrorNotPermitted:
      return orErrorNotPermitted;
    case kErrorNotSupported:
    case kErrorNotFound:
      return orErrorNotSupported;
    default:
      return orErrorSystem;
  }
}

}  // namespace

void set_host(const orHost* given) {
  host = given;
}

orError_t fail(orError_t code, const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(message, sizeof(message), format, values);
  va_end(values);
  if (host) host->report(message);
  return code;
}

const char* last_message() {
  return message;
}

orError_t fail_cuda(CUresult result, const char* call) {
  const orError_t code = code_of(result);
  if (code == orErrorNotReady) return code;
  const char* name = nullptr;
  const char* text = nullptr;
  static_cast<void>(cuda.error_name(result, &name));
  static_cast<void>(cuda.error_string(result, &text));
  return fail(code, "CUDA returned %s (%d) in %s: %s", name ? name : "an unknown error", result, call,
              text ? text : "no description");
}

}  // namespace nv
