// Modules: the kernel library, and images. An image is PTX text, a cubin or a fat binary; its functions get
// the argument block as their parameters, in the layout of cuLaunchKernel.
//
// Another chip: the format of its compiler. An image comes from a program, so a damaged one has to be an
// error.
#include "module.h"

#include "function.h"

#include <cstring>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace nv {
namespace {

class ImageFunction final : public Function {
 public:
  ImageFunction(const std::string& name, CUfunction function) : Function(name), function_(function) {}

  orError_t launch(Stream& stream, const orLaunchConfig& config, const void* args, size_t args_size,
                   const orObserver* observer) override {
    const auto* bytes = static_cast<const char*>(args);
    const auto work = [function = function_, config,
                       block = std::vector<char>(bytes, bytes + args_size)](Stream& on) {
      size_t size = block.size();
      void* extra[] = {reinterpret_cast<void*>(1), const_cast<char*>(block.data()),
                       reinterpret_cast<void*>(2), &size, nullptr};  // the buffer, its size, the end
      const uint32_t *grid = config.grid, *threads = config.block;
      return NV_CALL(launch, function, grid[0], grid[1], grid[2], threads[0], threads[1], threads[2],
                     config.shared_memory, on.native(), nullptr, extra);
    };
    return stream.submit(work, info(), observer);
  }

 private:
  const CUfunction function_;
};

struct Module {
  Device& device;
  CUmodule native = nullptr;  // of an image
  std::mutex mutex;           // guards functions
  std::unordered_map<std::string, std::unique_ptr<Function>> functions;
};

Module& module_of(orDriverModule* handle) {
  return *reinterpret_cast<Module*>(handle);
}

// cuModuleLoadData takes no size and reads text up to its end, so only known formats reach it.
bool is_image(std::string_view image) {
  constexpr std::string_view kElf =
                                 "\x7f"
                                 "ELF",
                             kFatBinary = "\x50\xed\x55\xba";
  if (image.starts_with(kElf)) return image.size() > 64;
  if (image.starts_with(kFatBinary)) return image.size() > 16;
  return image.find('\0') >= image.size() - 1 && image.find(".version") != std::string_view::npos;
}

orError_t find_in_image(Module& module, const std::string& name, std::unique_ptr<Function>& found) {
  const Current current(module.device);
  CUfunction function = nullptr;
  const CUresult result = cuda.module_function(&function, module.native, name.c_str());
  if (result == kErrorNotFound)
    return fail(orErrorNotSupported, "the image has no function '%s'", name.c_str());
  NV_RETURN_IF_ERROR(check(result, "cuModuleGetFunction"));
  found = std::make_unique<ImageFunction>(name, function);
  return orSuccess;
}

}  // namespace

orError_t module_load(int index, const void* image, size_t size, orDriverModule** module) {
  return entry([&]() -> orError_t {
    Device& device = device_at(index);
    auto made = std::unique_ptr<Module>(new Module{device, nullptr, {}, {}});
    if (image) {
      const std::string copy(static_cast<const char*>(image), size);  // ends with a zero
      if (!is_image(copy))
        return fail(orErrorInvalidValue, "the image is neither PTX nor a cubin nor a fat binary");
      const Current current(device);
      NV_RETURN_IF_ERROR(NV_CALL(module_load, &made->native, copy.c_str()));
    }
    *module = reinterpret_cast<orDriverModule*>(made.release());
    return orSuccess;
  });
}

// Submitted launches still use the code, which is unloaded with the device. They also use the names.
orError_t module_unload(orDriverModule* given) {
  return entry([&] {
    Module& module = module_of(given);
    const std::lock_guard lock(module.device.mutex);
    if (module.native) module.device.unloaded.push_back(module.native);
    module.device.unloaded_modules.emplace_back(&module,
                                                [](void* left) { delete static_cast<Module*>(left); });
    return orSuccess;
  });
}

orError_t module_function(orDriverModule* given, const char* name, orDriverFunction** function) {
  return entry([&]() -> orError_t {
    Module& module = module_of(given);
    const std::lock_guard lock(module.mutex);
    auto found = module.functions.find(name);
    if (found == module.functions.end()) {
      std::unique_ptr<Function> made;
      if (module.native) {
        NV_RETURN_IF_ERROR(find_in_image(module, name, made));
      } else {
        made = make_library_function(module.device, name);
        if (!made) return fail(orErrorNotSupported, "the driver has no function '%s'", name);
      }
      found = module.functions.emplace(name, std::move(made)).first;
    }
    *function = reinterpret_cast<orDriverFunction*>(found->second.get());
    return orSuccess;
  });
}

orError_t stream_launch_function(orDriverStream* stream, orDriverFunction* function,
                                 const orLaunchConfig* config, const void* args, size_t args_size,
                                 const orObserver* observer) {
  return entry([&] {
    auto& found = *reinterpret_cast<Function*>(function);
    return found.launch(Stream::of(stream), *config, args, args_size, observer);
  });
}

}  // namespace nv
