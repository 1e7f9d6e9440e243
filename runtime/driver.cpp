// Choice and loading of the driver; the driver functions of openreg.h.
#include "driver.h"

#include "driver_file.h"
#include "driver_table.h"
#include "error.h"
#include "runtime.h"
#include "utf8.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>
#include <string>

extern "C" const orDriver* openreg_sim_driver();

namespace openreg {
namespace {

constexpr const char* kEmbedded = "sim";
constexpr const char* kVariable = "OPENREG_DRIVER";

struct Choice {
  std::mutex mutex;    // guards everything below; held while the library is loaded, and during fork
  std::string path;    // of orSetDriver
  std::string origin;  // who has called it
  bool done = false;
  LoadedDriver loaded;
  orError_t error = orSuccess;  // of a failed load, with its message
  char message[1024] = {};
};

Choice& choice() {
  static Choice* made = [] {
    auto* created = new Choice;
    pthread_atfork([] { choice().mutex.lock(); }, [] { choice().mutex.unlock(); },
                   [] { choice().mutex.unlock(); });
    return created;
  }();
  return *made;
}

orError_t load(const Choice& choice, LoadedDriver& loaded) {
  const char* variable = std::getenv(kVariable);
  const bool from_variable = variable && *variable;
  const DriverFile file = {from_variable ? variable : choice.path.c_str(),
                           from_variable ? kVariable : choice.origin.c_str()};
  const orDriver* table = nullptr;
  std::string who;
  if (!*file.path || !std::strcmp(file.path, kEmbedded)) {
    table = openreg_sim_driver();
    who = "the embedded driver";
  } else {
    OR_RETURN_IF_ERROR(open_driver_file(file, table));
    loaded.path = file.path;
    who = "the driver '" + loaded.path + "' (from " + file.origin + ")";
  }
  loaded.table_size = table->struct_size;
  OR_RETURN_IF_ERROR(negotiate(*table, who.c_str(), loaded.table));
  loaded.name = loaded.table.name;
  make_utf8(loaded.name.data());
  loaded.table.name = loaded.name.c_str();
  return orSuccess;
}

}  // namespace

const LoadedDriver* load_driver(orError_t& error) {
  Choice& chosen = choice();
  std::lock_guard lock(chosen.mutex);
  if (!chosen.done) {
    chosen.error = load(chosen, chosen.loaded);
    if (chosen.error != orSuccess) {
      std::snprintf(chosen.message, sizeof(chosen.message), "%s", orGetLastErrorMessage());
    }
    chosen.done = true;
  }
  if (chosen.error == orSuccess) return &chosen.loaded;
  error = fail(chosen.error, "%s", chosen.message);
  return nullptr;
}

}  // namespace openreg

using namespace openreg;

extern "C" {

orError_t orSetDriver(const char* path) {
  return orSetDriverFrom(path, "orSetDriver");
}

orError_t orSetDriverFrom(const char* path, const char* origin) {
  if (!path || !*path) return fail(orErrorInvalidValue, "orSetDriver: path is %s", path ? "empty" : "NULL");
  if (!origin) return fail(orErrorInvalidValue, "orSetDriverFrom: origin is NULL");
  return noexcept_boundary([&]() -> orError_t {
    Choice& chosen = choice();
    std::lock_guard lock(chosen.mutex);
    if (chosen.done) {
      return fail(orErrorNotPermitted,
                  "orSetDriver: the driver '%s' is already loaded, and a process has one; call it earlier",
                  chosen.loaded.path.empty() ? kEmbedded : chosen.loaded.path.c_str());
    }
    chosen.path = path;
    chosen.origin = origin;
    return orSuccess;
  });
}

orError_t orGetDriverInfo(orDriverInfo* info) {
  if (!info) return fail(orErrorInvalidValue, "orGetDriverInfo: info is NULL");
  return noexcept_boundary([&]() -> orError_t {
    const uint32_t size = info->struct_size;
    OR_RETURN_IF_ERROR(check_struct_size("orGetDriverInfo", "orDriverInfo", size, sizeof(orDriverInfo)));
    orError_t error = orSuccess;
    const LoadedDriver* driver = load_driver(error);
    if (!driver) return error;
    *info = {size,
             driver->table.version,
             OR_DRIVER_VERSION,
             driver->table_size,
             driver->table.name,
             driver->path.c_str(),
             driver->table.capabilities};
    return orSuccess;
  });
}

}  // extern "C"
