#include "name.h"

#include "error.h"
#include "openreg/openreg.h"

#include <atomic>
#include <cstring>

namespace openreg {
namespace {

constexpr const char* kDefaultName = "openreg";
constexpr const char* kReserved = "privateuseone";
constexpr size_t kMaxLength = 63;

std::atomic<const char*> chosen{nullptr};  // lives as long as the process

// Makes `name` the name, unless there is one. Returns the name.
const char* choose(const char* name) {
  const char* before = nullptr;
  return chosen.compare_exchange_strong(before, name) ? name : before;
}

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

// As the device strings of c10: letters and underscores, then an index.
bool is_valid(const char* name) {
  const size_t length = std::strlen(name);
  if (length == 0 || length > kMaxLength || !is_lower(name[0])) return false;
  for (const char* c = name; *c; ++c) {
    if (!is_lower(*c) && *c != '_') return false;
  }
  return true;
}

}  // namespace

std::string setting_name(const char* setting) {
  std::string name = orGetDeviceName();
  for (char& c : name) {
    if (is_lower(c)) c = static_cast<char>(c - 'a' + 'A');
  }
  return name + "_" + setting;
}

}  // namespace openreg

using namespace openreg;

extern "C" {

orError_t orSetDeviceName(const char* name) {
  if (!name) return fail(orErrorInvalidValue, "orSetDeviceName: name is NULL");
  if (!is_valid(name)) {
    return fail(
        orErrorInvalidValue,
        "orSetDeviceName: name is '%.80s': use 1 to %zu lower-case letters and underscores, beginning "
        "with a letter",
        name, kMaxLength);
  }
  if (!std::strcmp(name, kReserved)) {
    return fail(orErrorInvalidValue,
                "orSetDeviceName: '%s' is torch's own name of an unnamed device: choose another", name);
  }
  return noexcept_boundary([&]() -> orError_t {
    auto* copy = new char[std::strlen(name) + 1];
    std::strcpy(copy, name);
    const char* now = choose(copy);
    if (now == copy) return orSuccess;
    delete[] copy;
    if (!std::strcmp(now, name)) return orSuccess;
    return fail(
        orErrorNotPermitted,
        "orSetDeviceName: the device is already named '%s', so it cannot be named '%s'; call it earlier", now,
        name);
  });
}

const char* orGetDeviceName(void) {
  const char* name = chosen.load(std::memory_order_acquire);
  return name ? name : choose(kDefaultName);
}

}  // extern "C"
