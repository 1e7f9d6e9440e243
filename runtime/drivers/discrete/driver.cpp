// A simulated device whose memory the host cannot execute on: it has functions of its own.
//
// It is the simulated device with another table: memory, streams, events, graphs and sharing are those of
// drivers/sim. There is no kernel view, and device code runs as a kernel of the simulated device.
#include "openreg/driver.h"

#include "function.h"
#include "kernels.h"
#include "module.h"

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

extern "C" const orDriver* openreg_sim_driver();

namespace openreg::discrete {
namespace {

constexpr const char* kName = "discrete";

const orDriver& sim() {
  return *openreg_sim_driver();
}

uint64_t capabilities() {
  return (sim().capabilities & ~OR_CAP_HOST_EXECUTABLE) | OR_CAP_DEVICE_CODE;
}

orError_t init(const orHost* host) {
  set_host(host);
  return sim().init(host);
}

orError_t device_properties(int device, orDeviceProperties* properties) {
  const orError_t error = sim().device_properties(device, properties);
  std::snprintf(properties->name, sizeof(properties->name), "simulated %s", kName);
  properties->capabilities = capabilities();
  return error;
}

// The argument block of a launch; the arguments of the function follow it.
struct alignas(std::max_align_t) Launched {
  orDiscreteFunction function;
  orLaunchConfig config;
};

orError_t run_blocks(void* args, char* why, size_t why_size) {
  const auto& launched = *static_cast<const Launched*>(args);
  orDiscreteLaunch launch = {&launched.config, {}, 0, nullptr, why, why_size};
  if (const orError_t error = sim().kernel_view_offset(0, &launch.memory)) return error;
  std::vector<std::max_align_t> shared(launched.config.shared_memory / sizeof(std::max_align_t) + 1);
  auto& [x, y, z] = launch.block_index;
  for (z = 0; z < launched.config.grid[2]; ++z) {
    for (y = 0; y < launched.config.grid[1]; ++y) {
      for (x = 0; x < launched.config.grid[0]; ++x) {
        std::memset(shared.data(), 0, launched.config.shared_memory);
        launch.shared = shared.data();
        if (const orError_t error = launched.function(&launch, &launched + 1)) return error;
      }
    }
  }
  return orSuccess;
}

orError_t launch_function(orDriverStream* stream, orDriverFunction* function, const orLaunchConfig* config,
                          const void* args, size_t args_size, const orObserver* observer) {
  const auto& found = *reinterpret_cast<const Function*>(function);
  const size_t size = sizeof(Launched) + args_size;
  const std::unique_ptr<Launched[]> block(new (std::nothrow) Launched[size / sizeof(Launched) + 1]);
  if (!block) return orErrorOutOfHostMemory;
  block[0] = {found.code, *config};
  if (args_size) std::memcpy(&block[1], args, args_size);
  return sim().stream_launch(stream, &found.kernel, block.get(), size, observer);
}

// A stream's handle is its address in this process, a device's handle its index plus one.
orError_t stream_native_handle(orDriverStream* stream, void** handle) {
  *handle = stream;
  return orSuccess;
}

orError_t device_native_handle(int device, void** handle) {
  *handle = reinterpret_cast<void*>(static_cast<uintptr_t>(device) + 1);
  return orSuccess;
}

const orDriver& table() {
  static const orDriver made = [] {
    orDriver changed = sim();
    changed.name = kName;
    changed.capabilities = capabilities();
    changed.init = &init;
    changed.device_properties = &device_properties;
    changed.kernel_view_offset = nullptr;
    changed.module_load = &module_load;
    changed.module_unload = &module_unload;
    changed.module_function = &module_function;
    changed.stream_launch_function = &launch_function;
    changed.stream_native_handle = &stream_native_handle;
    changed.device_native_handle = &device_native_handle;
    return changed;
  }();
  return made;
}

}  // namespace

orKernel make_kernel(const char* name) {
  return {name, &run_blocks, nullptr};
}

}  // namespace openreg::discrete

const orDriver* orGetDriver(void) {
  return &openreg::discrete::table();
}
