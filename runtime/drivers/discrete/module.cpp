#include "module.h"

#include "kernels.h"
#include "platform.h"

#include <cstdio>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <unistd.h>
#include <unordered_map>

namespace openreg::discrete {
namespace {

const orHost* host = nullptr;

struct Module {
  void* library = nullptr;  // of an image
  std::mutex mutex;         // guards the map
  std::unordered_map<std::string, std::unique_ptr<Function>> functions;
};

orError_t fail(orError_t code, const std::string& message) {
  host->report(message.c_str());
  return code;
}

// The dynamic loader opens files, so the image becomes one in memory.
orError_t load_image(const void* image, size_t size, void** library) {
  const int file = sim::platform::create_memory("image", size);
  if (file < 0)
    return fail(orErrorOutOfHostMemory, "cannot copy an image of " + std::to_string(size) + " bytes");
  const bool written = pwrite(file, image, size, 0) == static_cast<ssize_t>(size);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (written) *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  // The file stays open: the loader identifies a library by its path, which must not be used again.
  if (*library) return orSuccess;
  const std::string why = written ? dlerror() : "it cannot be copied";
  sim::platform::close_memory(file);
  return fail(orErrorInvalidValue, "the image is not an ELF library: " + why);
}

}  // namespace

void set_host(const orHost* given) {
  host = given;
}

orError_t module_load(int, const void* image, size_t size, orDriverModule** module) {
  auto made = std::make_unique<Module>();
  if (image) {
    if (const orError_t error = load_image(image, size, &made->library)) return error;
  }
  *module = reinterpret_cast<orDriverModule*>(made.release());
  return orSuccess;
}

// Submitted launches still use the code, so libraries stay loaded.
orError_t module_unload(orDriverModule*) {
  return orSuccess;
}

orError_t module_function(orDriverModule* given, const char* name, orDriverFunction** function) {
  auto& module = *reinterpret_cast<Module*>(given);
  const std::lock_guard lock(module.mutex);
  std::unique_ptr<Function>& found = module.functions[name];
  if (!found) {
    auto* code = module.library ? reinterpret_cast<orDiscreteFunction>(dlsym(module.library, name))
                                : find_kernel(name);
    if (!code) {
      module.functions.erase(name);
      return fail(orErrorNotSupported, std::string(module.library ? "the image" : "the driver") +
                                           " has no function '" + name + "'");
    }
    found = std::make_unique<Function>(Function{name, code, {}});
    found->kernel = make_kernel(found->name.c_str());
  }
  *function = reinterpret_cast<orDriverFunction*>(found.get());
  return orSuccess;
}

}  // namespace openreg::discrete
