// Modules and functions of device code: their handles.
//
// Thread safety: all members may be called from any thread.
#pragma once

#include "handles.h"
#include "openreg/driver.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace openreg {

struct ModuleInfo {
  orDriverModule* driver;
  int device;
};

struct FunctionInfo {
  orDriverFunction* driver;
  uint64_t module;
  int device;
  const char* name;  // lives as long as the process
};

using ModulePin = HandleTable<ModuleInfo>::Pin;
using FunctionPin = HandleTable<FunctionInfo>::Pin;

class Modules {
 public:
  /// `destroy` is called when the last call that uses an unloaded module has returned.
  explicit Modules(void (*destroy)(const ModuleInfo&));

  /// Returns the new handle, or 0 if there are too many.
  uint64_t insert(const ModuleInfo& info) { return modules_.insert(info); }
  ModulePin pin(uint64_t handle) { return modules_.pin(handle); }
  /// Invalidates the module and its functions. Returns false if another thread has done so.
  bool unload(uint64_t handle, const ModulePin& pin);
  void unload_device(int device);

  /// The handle of a function, from the driver at the first call for a name. `handle` is 0 if there are too
  /// many.
  [[nodiscard]] orError_t find(const orDriver& driver, uint64_t module, const ModulePin& pin,
                               const char* name, uint64_t& handle);
  /// Pins the function and its module. Returns false if the handle is invalid or the module was unloaded.
  bool pin_function(uint64_t handle, FunctionPin& function, ModulePin& module);

 private:
  HandleTable<ModuleInfo> modules_;
  HandleTable<FunctionInfo> functions_;
  std::mutex mutex_;  // guards by_name_; held while the driver looks up a function
  std::map<std::pair<uint64_t, std::string>, uint64_t> by_name_;  // module and name
};

}  // namespace openreg
