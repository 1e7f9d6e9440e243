#include "error.h"

#include "utf8.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <system_error>

namespace openreg {
namespace {

struct Entry {
  orError_t code;
  const char* name;
  orErrorClass error_class;
  const char* text;
};

#define OR_TABLE_ENTRY(name, number, class_, text) {name, #name, class_, text},
constexpr Entry kTable[] = {OR_ERRORS(OR_TABLE_ENTRY)};
#undef OR_TABLE_ENTRY

constexpr Entry kUnknown = {orErrorInvalidValue, "orErrorUnknown", orClassOperationFailed,
                            "unrecognized error code"};

const Entry& entry(orError_t code) {
  for (const Entry& candidate : kTable) {
    if (candidate.code == code) return candidate;
  }
  return kUnknown;
}

constexpr size_t kMessageSize = 1024;

// No constructor and no destructor, so that it is usable until the thread ends.
struct ThreadState {
  orError_t last;
  const char* message;  // the general text of the code, or `buffer`
  char buffer[kMessageSize];
  char driver_message[kMessageSize];
};
thread_local ThreadState thread_state;

}  // namespace

orError_t fail(orError_t code, const char* format, ...) {
  ThreadState& state = thread_state;
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(state.buffer, sizeof(state.buffer), format, values);
  va_end(values);
  make_utf8(state.buffer);
  state.message = state.buffer;
  state.last = code;
  return code;
}

orError_t not_ready(const char* message) {
  ThreadState& state = thread_state;
  state.message = entry(orErrorNotReady).text;
  if (message) {
    std::snprintf(state.buffer, sizeof(state.buffer), "%s", message);
    make_utf8(state.buffer);
    state.message = state.buffer;
  }
  return orErrorNotReady;
}

void report_from_driver(const char* message) {
  if (message) std::snprintf(thread_state.driver_message, kMessageSize, "%s", message);
}

orError_t fail_from_driver(orError_t code) {
  if (code == orErrorNotReady) return not_ready();
  ThreadState& state = thread_state;
  const char* message = state.driver_message[0] ? state.driver_message : entry(code).text;
  // The text and the name of an unknown code are the same for all of them.
  const orError_t result = entry(code).code == code
                               ? fail(code, "%s", message)
                               : fail(code, "error code %d of the driver: %s", code, message);
  state.driver_message[0] = '\0';
  return result;
}

orError_t check_created(const void* object, const char* entry, const char* driver) {
  if (object) return orSuccess;
  return fail(orErrorDriver, "%s of the driver '%s' returned NULL, and no error", entry, driver);
}

orError_t fail_from_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(orErrorOutOfHostMemory, "out of host memory in the runtime");
  } catch (const std::system_error& error) {
    return fail(orErrorSystem, "operating system call failed: %s", error.what());
  } catch (const std::exception& error) {
    return fail(orErrorDriver, "unexpected exception in the runtime: %s", error.what());
  } catch (...) {
    return fail(orErrorDriver, "unexpected exception in the runtime");
  }
}

}  // namespace openreg

extern "C" {

const char* orGetErrorName(orError_t error) {
  return openreg::entry(error).name;
}

const char* orGetErrorString(orError_t error) {
  return openreg::entry(error).text;
}

orErrorClass orGetErrorClass(orError_t error) {
  return openreg::entry(error).error_class;
}

orError_t orGetLastError(void) {
  const orError_t last = openreg::thread_state.last;
  openreg::thread_state.last = orSuccess;
  return last;
}

orError_t orPeekAtLastError(void) {
  return openreg::thread_state.last;
}

const char* orGetLastErrorMessage(void) {
  const char* message = openreg::thread_state.message;
  return message ? message : openreg::entry(orSuccess).text;
}

}  // extern "C"
