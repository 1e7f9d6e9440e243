// Another chip: a file in /sys or /proc, or an ioctl. device_count and device_properties are called in
// processes that never use the device, and before a fork; they should not create a context.
#include "topology.h"

#include <cstdlib>
#include <dlfcn.h>

namespace nv {
namespace {

using nvmlDevice = struct nvmlDevice_st*;

struct NvmlMemory {
  unsigned long long total, free, used;
};

struct Nvml {
  int (*init)();
  int (*shutdown)();
  int (*count)(unsigned*);
  int (*device)(unsigned, nvmlDevice*);
  int (*name)(nvmlDevice, char*, unsigned);
  int (*memory)(nvmlDevice, NvmlMemory*);
  int (*capability)(nvmlDevice, int*, int*);
  int (*cores)(nvmlDevice, unsigned*);
};

bool load(Nvml& nvml) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  const struct {
    const char* name;
    void* function;
  } symbols[] = {
      {"nvmlInit_v2", &nvml.init},
      {"nvmlShutdown", &nvml.shutdown},
      {"nvmlDeviceGetCount_v2", &nvml.count},
      {"nvmlDeviceGetHandleByIndex_v2", &nvml.device},
      {"nvmlDeviceGetName", &nvml.name},
      {"nvmlDeviceGetMemoryInfo", &nvml.memory},
      {"nvmlDeviceGetCudaComputeCapability", &nvml.capability},
      {"nvmlDeviceGetNumGpuCores", &nvml.cores},
  };
  for (const auto& symbol : symbols) {
    *static_cast<void**>(symbol.function) = dlsym(library, symbol.name);
    if (!*static_cast<void**>(symbol.function)) return false;
  }
  return true;
}

// Cores of a streaming multiprocessor.
int cores_of_processor(int major, int minor) {
  const bool has_64 = (major == 6 && minor == 0) || major == 7 || (major == 8 && minor == 0);
  return has_64 ? 64 : 128;
}

bool describe(const Nvml& nvml, unsigned index, Gpu& gpu) {
  nvmlDevice device = nullptr;
  char name[96] = "";
  NvmlMemory memory{};
  unsigned cores = 0;
  if (nvml.device(index, &device) || nvml.name(device, name, sizeof(name)) || nvml.memory(device, &memory) ||
      nvml.capability(device, &gpu.major, &gpu.minor) || nvml.cores(device, &cores)) {
    return false;
  }
  gpu.name = name;
  gpu.memory = memory.total;
  gpu.processors = static_cast<int>(cores) / cores_of_processor(gpu.major, gpu.minor);
  return true;
}

// The indices of CUDA_VISIBLE_DEVICES, up to the first that does not exist. False: it has other names than
// indices.
bool visible(unsigned count, std::vector<unsigned>& indices) {
  const char* variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!variable) {
    for (unsigned i = 0; i < count; ++i) indices.push_back(i);
    return true;
  }
  for (const char* at = variable; *at;) {
    char* end = nullptr;
    const long index = std::strtol(at, &end, 10);
    if (end == at || (*end && *end != ',')) return false;
    if (index < 0 || index >= static_cast<long>(count)) break;
    indices.push_back(static_cast<unsigned>(index));
    at = *end ? end + 1 : end;
  }
  return true;
}

}  // namespace

bool find_gpus(std::vector<Gpu>& gpus) {
  Nvml nvml{};
  unsigned count = 0;
  if (!load(nvml) || nvml.init() != 0) return false;
  std::vector<unsigned> indices;
  bool known = nvml.count(&count) == 0 && visible(count, indices);
  for (const unsigned index : indices) {
    gpus.emplace_back();
    known = known && describe(nvml, index, gpus.back());
  }
  // GPUs of different kinds have another order in CUDA.
  for (const Gpu& gpu : gpus) known = known && gpu.name == gpus.front().name;
  nvml.shutdown();
  if (!known) gpus.clear();
  return known;
}

}  // namespace nv
