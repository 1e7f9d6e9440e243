#include "modules.h"

#include "error.h"

#include <set>

namespace openreg {
namespace {

constexpr uint8_t kModuleTag = 0x4d;
constexpr uint8_t kFunctionTag = 0x46;

// A name that outlives modules: traces and graphs refer to it. The caller holds Modules::mutex_.
const char* intern(const char* name) {
  static auto* names = new std::set<std::string>;
  return names->emplace(name).first->c_str();
}

}  // namespace

Modules::Modules(void (*destroy)(const ModuleInfo&))
    : modules_(kModuleTag, destroy), functions_(kFunctionTag, [](const FunctionInfo&) {}) {}

bool Modules::unload(uint64_t handle, const ModulePin& pin) {
  if (!modules_.kill(pin)) return false;
  std::lock_guard lock(mutex_);
  const auto begin = by_name_.lower_bound({handle, std::string()});
  auto end = begin;
  for (; end != by_name_.end() && end->first.first == handle; ++end) {
    if (const FunctionPin function = functions_.pin(end->second)) functions_.kill(function);
  }
  by_name_.erase(begin, end);
  return true;
}

void Modules::unload_device(int device) {
  std::lock_guard lock(mutex_);
  std::erase_if(by_name_, [&](const auto& entry) {
    const FunctionPin function = functions_.pin(entry.second);
    return function && function->device == device && functions_.kill(function);
  });
  modules_.for_each([&](const ModulePin& pin) {
    if (pin->device == device) modules_.kill(pin);
  });
}

orError_t Modules::find(const orDriver& driver, uint64_t module, const ModulePin& pin, const char* name,
                        uint64_t& handle) {
  std::lock_guard lock(mutex_);
  const std::pair<uint64_t, std::string> key(module, name);
  if (const auto found = by_name_.find(key); found != by_name_.end()) {
    handle = found->second;
    return orSuccess;
  }
  FunctionInfo info{nullptr, module, pin->device, intern(name)};
  OR_RETURN_IF_ERROR(from_driver(driver.module_function(pin->driver, name, &info.driver)));
  OR_RETURN_IF_ERROR(check_created(info.driver, "module_function", driver.name));
  handle = functions_.insert(info);
  if (handle != 0) by_name_.emplace(key, handle);
  return orSuccess;
}

bool Modules::pin_function(uint64_t handle, FunctionPin& function, ModulePin& module) {
  function = functions_.pin(handle);
  if (!function) return false;
  module = modules_.pin(function->module);
  return static_cast<bool>(module);
}

}  // namespace openreg
