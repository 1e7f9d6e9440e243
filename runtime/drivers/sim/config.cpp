#include "config.h"

#include "error.h"
#include "platform.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace openreg::sim {
namespace {

// Returns false unless the whole text is a number, optionally with a unit if `units`.
bool parse(const char* text, bool units, unsigned long long& value) {
  if (*text < '0' || *text > '9') return false;
  char* end = nullptr;
  errno = 0;
  value = std::strtoull(text, &end, 10);
  if (errno) return false;
  int shift = 0;
  if (units && *end) {
    switch (*end++) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        return false;
    }
  }
  if (*end || value > (~0ull >> shift)) return false;
  value <<= shift;
  return true;
}

}  // namespace

orError_t read_config(Config& config) {
  unsigned long long value = 0;
  if (const char* text = std::getenv("OPENREG_DEVICE_COUNT"); text && *text) {
    if (!parse(text, false, value) || value > static_cast<unsigned>(kMaxDevices)) {
      return fail(orErrorInvalidValue, "OPENREG_DEVICE_COUNT is '%s': use a number from 0 to %d", text,
                  kMaxDevices);
    }
    config.device_count = static_cast<int>(value);
  } else if (const char* ranks = std::getenv("LOCAL_WORLD_SIZE"); ranks && parse(ranks, false, value)) {
    // torchrun sets it: a device for each rank of this machine.
    config.device_count = static_cast<int>(std::clamp<unsigned long long>(value, 2, kMaxDevices));
  }
  const size_t page = platform::page_size();
  const unsigned long long most = 1ull << 42;
  if (const char* text = std::getenv("OPENREG_MEMORY"); text && *text) {
    if (!parse(text, true, value) || value < page || value > most) {
      return fail(orErrorInvalidValue,
                  "OPENREG_MEMORY is '%s': use a number of bytes from %zu to %llu, such as 512M or 8G", text,
                  page, most);
    }
    config.memory = static_cast<size_t>(value) / page * page;
  }
  return orSuccess;
}

}  // namespace openreg::sim
