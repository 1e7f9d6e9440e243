// Another chip: a context is what the chip needs before memory and streams can be used: an open file, a
// mapped register window, a queue to its firmware. `init` only looks for the software.
#include "device.h"

#include "capture.h"
#include "graph.h"
#include "stream.h"
#include "topology.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace nv {
namespace {

struct Devices {
  std::vector<Gpu> gpus;
  std::vector<std::unique_ptr<Device>> all;
  orError_t error = orSuccess;
  std::string message;
};

// TORCH_NV_REPEAT=2: each GPU appears twice, to try programs for several devices on a machine with one.
orError_t repeat(std::vector<Gpu>& gpus) {
  const std::string_view variable = [] {
    const char* given = std::getenv("TORCH_NV_REPEAT");
    return given && *given ? given : "1";
  }();
  constexpr int kMost = 8;
  int times = 0;
  const auto parsed = std::from_chars(variable.begin(), variable.end(), times);
  if (parsed.ec != std::errc() || parsed.ptr != variable.end() || times < 1 || times > kMost) {
    return fail(orErrorInvalidValue, "TORCH_NV_REPEAT=%s: expected an integer from 1 to %d",
                std::string(variable).c_str(), kMost);
  }
  const std::vector<Gpu> once = gpus;
  for (int i = 1; i < times; ++i) gpus.insert(gpus.end(), once.begin(), once.end());
  return orSuccess;
}

Devices& devices() {
  static Devices* made = [] {  // leaked: threads may use it while the process ends
    auto* found = new Devices;
    found->error = find_gpus(found->gpus);
    const size_t real = found->gpus.size();
    if (found->error == orSuccess) found->error = repeat(found->gpus);
    if (found->error != orSuccess) found->message = last_message();
    for (size_t i = 0; i < found->gpus.size(); ++i) {
      const Gpu& gpu = found->gpus[i];
      auto device = std::make_unique<Device>();
      device->index = static_cast<int>(i);
      device->gpu = static_cast<int>(i % real);
      device->processors = std::max(gpu.processors, 1);
      device->arch = gpu.major * 10 + gpu.minor;
      device->memory = gpu.memory;
      found->all.push_back(std::move(device));
    }
    return found;
  }();
  return *made;
}

std::vector<std::shared_ptr<Stream>> streams_of(Device& device) {
  const std::lock_guard lock(device.mutex);
  return device.streams;
}

// Waits for all streams, and does not report failures.
orError_t wait_for_device(Device& device) {
  for (const auto& stream : streams_of(device)) NV_RETURN_IF_ERROR(stream->wait());
  return orSuccess;
}

}  // namespace

Device& device_at(int index) {
  return *devices().all[static_cast<size_t>(index)];
}

orError_t count_devices(int* count) {
  return entry([&]() -> orError_t {
    const Devices& found = devices();
    if (found.error != orSuccess) return fail(found.error, "%s", found.message.c_str());
    *count = static_cast<int>(found.all.size());
    return orSuccess;
  });
}

orError_t init(const orHost* host) {
  set_host(host);
  const char* why = "";
  return load_cuda(&why) ? orSuccess : fail(orErrorSystem, "%s", why);
}

orError_t device_properties(int index, orDeviceProperties* properties) {
  return entry([&]() -> orError_t {
    const Gpu& gpu = devices().gpus[static_cast<size_t>(index)];
    std::snprintf(properties->name, sizeof(properties->name), "%s", gpu.name.c_str());
    properties->total_memory = gpu.memory;
    properties->allocation_granularity = kGranularity;
    properties->major = gpu.major;
    properties->minor = gpu.minor;
    properties->multi_processor_count = gpu.processors;
    properties->least_priority = kLeastPriority;
    properties->greatest_priority = kGreatestPriority;
    properties->capabilities = kCapabilities;
    return orSuccess;
  });
}

orError_t open_context(Device& device) {
  const std::lock_guard lock(device.mutex);
  if (device.users == 0) {
    NV_RETURN_IF_ERROR(NV_CALL(init, 0));
    NV_RETURN_IF_ERROR(NV_CALL(device_get, &device.native, device.gpu));
    NV_RETURN_IF_ERROR(NV_CALL(context_retain, &device.context, device.native));
  }
  ++device.users;
  return orSuccess;
}

orError_t close_context(Device& device) {
  std::vector<std::shared_ptr<void>> modules;  // destroyed without the lock; they add to `unloaded`
  {
    const std::lock_guard lock(device.mutex);
    if (device.users == 1) modules.swap(device.unloaded_modules);
  }
  modules.clear();
  const std::lock_guard lock(device.mutex);
  if (--device.users > 0) return orSuccess;
  {
    const Current current(device);
    for (auto& free : device.free_events) {
      for (CUevent event : free) static_cast<void>(cuda.event_destroy(event));
      free.clear();
    }
    for (CUmodule module : device.unloaded) static_cast<void>(cuda.module_unload(module));
    device.unloaded.clear();
    device.free_workspaces.clear();
  }
  device.context = nullptr;
  return NV_CALL(context_release, device.native);
}

orError_t device_open(int index) {
  return entry([&] { return open_context(device_at(index)); });
}

orError_t device_close(int index) {
  return entry([&]() -> orError_t {
    Device& device = device_at(index);
    NV_RETURN_IF_ERROR(wait_for_device(device));
    reap(device);
    return close_context(device);
  });
}

void reap(Device& device) {
  const Current current(device);
  std::vector<std::shared_ptr<Stream>> streams;  // destroyed outside of the lock
  std::vector<std::shared_ptr<Graph>> graphs, done;
  for (auto& stream : streams_of(device)) {
    if (stream->destroyed() && stream->idle()) streams.push_back(std::move(stream));
  }
  {
    const std::lock_guard lock(device.mutex);
    std::erase_if(device.streams, [&](const auto& one) { return std::ranges::count(streams, one) != 0; });
    graphs.swap(device.retired);
  }
  std::erase_if(graphs, [&](auto& graph) { return graph->idle() && (done.push_back(graph), true); });
  if (graphs.empty()) return;
  const std::lock_guard lock(device.mutex);
  device.retired.insert(device.retired.end(), graphs.begin(), graphs.end());
}

orError_t device_synchronize(int index) {
  return entry([&]() -> orError_t {
    if (inside_kernel()) {
      return fail(orErrorNotPermitted, "a kernel cannot wait for device %d: it waits for the kernel", index);
    }
    NV_RETURN_IF_ERROR(Capture::check_wait(index));
    Device& device = device_at(index);
    NV_RETURN_IF_ERROR(wait_for_device(device));
    orError_t error = orSuccess;
    for (const auto& stream : streams_of(device)) {
      if ((error = stream->report()) != orSuccess) break;
    }
    const std::string message = error ? last_message() : "";
    reap(device);
    return error ? fail(error, "%s", message.c_str()) : orSuccess;
  });
}

orError_t device_drain(int index) {
  return entry([&]() -> orError_t {
    NV_RETURN_IF_ERROR(Capture::check_free(index, "freeing memory"));
    Device& device = device_at(index);
    if (inside_kernel()) {
      for (const auto& stream : streams_of(device)) {
        if (stream->only_runs_this_kernel() || stream->idle()) continue;
        return fail(orErrorNotPermitted, "a kernel can wait for device %d only if nothing else uses it",
                    index);
      }
      return orSuccess;
    }
    NV_RETURN_IF_ERROR(wait_for_device(device));
    reap(device);
    return orSuccess;
  });
}

orError_t device_native_handle(int index, void** handle) {
  *handle = device_at(index).context;
  return orSuccess;
}

}  // namespace nv
