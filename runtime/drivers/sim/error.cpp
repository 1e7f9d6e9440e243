#include "error.h"

#include <cstdarg>
#include <cstdio>

namespace openreg::sim {

namespace {
const orHost* host_table = nullptr;
}

void set_host(const orHost* host) {
  host_table = host;
}

orError_t fail(orError_t code, const char* format, ...) {
  char message[1024];
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(message, sizeof(message), format, values);
  va_end(values);
  if (host_table) host_table->report(message);
  return code;
}

}  // namespace openreg::sim
