#include "runtime.h"

#include "driver.h"
#include "faults.h"
#include "kernel_hooks.h"
#include "trace.h"
#include "utf8.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <string>

namespace openreg {
namespace {

constexpr uint8_t kStreamTag = 0x53;
constexpr uint8_t kEventTag = 0x45;
constexpr uint8_t kGraphTag = 0x47;
constexpr uint8_t kDeferredTag = 0x44;

constexpr orHost kHost = {sizeof(orHost), &report_from_driver, OR_DRIVER_VERSION};

void object_destroyed(int device) {
  orError_t error;
  Runtime* runtime = Runtime::enter(error);
  if (!runtime) return;
  std::atomic<int>& alive = runtime->device(device).alive;
  alive.fetch_sub(1, std::memory_order_acq_rel);
  alive.notify_all();
}

void destroy_driver_stream(const StreamInfo& info) {
  orError_t error;
  Runtime* runtime = Runtime::enter(error);
  if (!runtime) return;
  static_cast<void>(runtime->driver().stream_destroy(info.driver));
  object_destroyed(info.device);
}

void destroy_driver_event(const EventInfo& info) {
  orError_t error;
  Runtime* runtime = Runtime::enter(error);
  if (!runtime) return;
  static_cast<void>(runtime->driver().event_destroy(info.driver));
  object_destroyed(info.device);
}

void destroy_driver_graph(const GraphInfo& info) {
  orError_t error;
  Runtime* runtime = Runtime::enter(error);
  if (!runtime) return;
  static_cast<void>(runtime->driver().graph_destroy(info.driver));
  object_destroyed(info.device);
}

void destroy_driver_module(const ModuleInfo& info) {
  orError_t error;
  Runtime* runtime = Runtime::enter(error);
  if (!runtime) return;
  static_cast<void>(runtime->driver().module_unload(info.driver));
  object_destroyed(info.device);
}

}  // namespace

std::atomic<Runtime::State> Runtime::state_{State::kUnused};
Runtime* Runtime::instance_ = nullptr;
std::mutex Runtime::start_mutex_;
std::atomic<bool> Runtime::faults_{false};

int& thread_device() {
  thread_local int device = 0;
  return device;
}

Runtime::Runtime()
    : modules(&destroy_driver_module),
      streams_(kStreamTag, &destroy_driver_stream),
      events_(kEventTag, &destroy_driver_event),
      graphs_(kGraphTag, &destroy_driver_graph),
      deferred_(kDeferredTag, [](const DeferredInfo&) {}) {}

Runtime* Runtime::enter_slow_path(orError_t& error) {
  State state = state_.load(std::memory_order_acquire);
  if (state == State::kUnused) {
    std::lock_guard lock(start_mutex_);
    if (!instance_) {
      instance_ = new Runtime;
      instance_->start();
    }
    state = state_.load(std::memory_order_acquire);
  }
  if (state == State::kReady || state == State::kFaults) return instance_;
  if (state == State::kForked) {
    error = fail(orErrorForked,
                 "cannot use the device in a forked process whose parent used it before the fork; start "
                 "child processes with the method 'spawn', or fork before the first use");
  } else {
    error = fail(instance_->broken_code_, "%s", instance_->broken_message_);
  }
  return nullptr;
}

void Runtime::start() {
  const orError_t error = start_driver();
  if (error != orSuccess) {
    broken_code_ = error;
    std::snprintf(broken_message_, sizeof(broken_message_), "%s", orGetLastErrorMessage());
  }
  pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
  state_.store(error == orSuccess ? State::kReady : State::kBroken);
  update_faults();
}

orError_t Runtime::start_driver() {
  orError_t error = orSuccess;
  const LoadedDriver* loaded = load_driver(error);
  if (!loaded) return error;
  driver_ = loaded->table;
  const char* label = loaded->path.empty() ? driver_.name : loaded->path.c_str();
  if ((error = from_driver(driver_.init(&kHost)))) {
    if (loaded->path.empty()) return error;
    const std::string why = orGetLastErrorMessage();
    return fail(error, "the driver '%s' failed in init: %s", loaded->path.c_str(), why.c_str());
  }
  OR_RETURN_IF_ERROR(from_driver(driver_.device_count(&device_count_)));
  if (device_count_ < 0 || device_count_ > OR_MAX_DEVICES) {
    return fail(orErrorDriver,
                "the driver '%s' reports %d devices; the supported range is 0 to %d: report the first %d",
                label, device_count_, OR_MAX_DEVICES, OR_MAX_DEVICES);
  }
  devices_ = new Device[static_cast<size_t>(device_count_)];
  for (int index = 0; index < device_count_; ++index) {
    devices_[index].properties.struct_size = sizeof(orDeviceProperties);
    OR_RETURN_IF_ERROR(from_driver(driver_.device_properties(index, &devices_[index].properties)));
    char(&name)[sizeof(orDeviceProperties::name)] = devices_[index].properties.name;
    name[sizeof(name) - 1] = '\0';
    make_utf8(name);
    const size_t granularity = devices_[index].properties.allocation_granularity;
    if (!std::has_single_bit(granularity)) {
      return fail(
          orErrorDriver,
          "the driver '%s' reports an allocation granularity of %zu bytes for device %d; it must be a "
          "power of two",
          label, granularity, index);
    }
  }
  return schedule_from_environment();
}

orError_t Runtime::set_kernel_hooks(const orKernelHooks& hooks) {
  std::lock_guard lock(start_mutex_);
  if (has_kernel_hooks_) return fail(orErrorNotPermitted, "orSetKernelHooks: the process has kernel hooks");
  for (int index = 0; index < device_count_; ++index) {
    if (is_open(index)) {
      return fail(orErrorNotPermitted,
                  "orSetKernelHooks: device %d is open; set the hooks before the first use of a device",
                  index);
    }
  }
  if (!has_capability(OR_CAP_HOST_EXECUTABLE)) {
    return fail(orErrorNotSupported, "orSetKernelHooks: the driver '%s' does not run host code as kernels",
                driver_.name);
  }
  hook_kernels(driver_, hooks);
  has_kernel_hooks_ = true;
  return orSuccess;
}

// Only the start is guarded against a concurrent fork: after the first use, calls in the child fail with
// orErrorForked without taking a lock.
void Runtime::before_fork() {
  start_mutex_.lock();
}

void Runtime::after_fork_in_parent() {
  start_mutex_.unlock();
}

void Runtime::after_fork_in_child() {
  if (instance_->used_.load(std::memory_order_relaxed)) {
    state_.store(State::kForked, std::memory_order_release);
    trace_subscriber.store(nullptr, std::memory_order_relaxed);  // its callback may take a lock
  }
  start_mutex_.unlock();
}

orError_t Runtime::check_device(int index) const {
  if (index >= 0 && index < device_count_) return orSuccess;
  const bool simulated = !std::strcmp(driver_.name, "sim");
  const char* hint = simulated ? "; set OPENREG_DEVICE_COUNT for more" : "";
  if (device_count_ == 0) {
    return fail(orErrorInvalidDevice,
                "invalid device ordinal: device index %d is out of range: there are no devices%s", index,
                hint);
  }
  return fail(orErrorInvalidDevice,
              "invalid device ordinal: device index %d is out of range: there are %d devices (0 to %d)%s",
              index, device_count_, device_count_ - 1, hint);
}

orError_t Runtime::check_driver_device(int index, const char* entry) const {
  if (index >= 0 && index < device_count_) return orSuccess;
  return fail(orErrorDriver, "%s of the driver '%s' returned device %d; it has %d devices", entry,
              driver_.name, index, device_count_);
}

orError_t Runtime::current_device(int& index) const {
  index = thread_device();
  return check_device(index);
}

orError_t Runtime::open_locked(int index) {
  Device& device = devices_[index];
  if (device.state == Device::State::kOpen) return orSuccess;
  if (device.state == Device::State::kClosing) {
    return fail(orErrorNotPermitted, "device %d is being reset by another thread", index);
  }
  mark_used();
  OR_RETURN_IF_ERROR(from_driver(driver_.device_open(index)));
  // Only drivers with a kernel view at another address reserve the addresses of device memory.
  ptrdiff_t offset = 0;
  const bool reserved = has_capability(OR_CAP_HOST_EXECUTABLE) &&
                        driver_.kernel_view_offset(index, &offset) == orSuccess && offset != 0;
  if (!reserved) allocations.allow_address_reuse();
  uint64_t handle = 0;
  const int priority = device.properties.least_priority;
  if (const orError_t error = make_stream(index, priority, 0, handle)) {
    static_cast<void>(driver_.device_close(index));
    return error;
  }
  device.state = Device::State::kOpen;
  device.default_stream.store(handle, std::memory_order_release);
  return orSuccess;
}

orError_t Runtime::hold_open(int index, std::shared_lock<std::shared_mutex>& lock) {
  Device& device = devices_[index];
  for (;;) {
    lock = std::shared_lock(device.state_mutex);
    if (device.state == Device::State::kOpen) return orSuccess;
    lock.unlock();
    std::unique_lock exclusive(device.state_mutex);
    OR_RETURN_IF_ERROR(open_locked(index));
  }
}

bool Runtime::is_open(int index) {
  return devices_[index].default_stream.load(std::memory_order_acquire) != 0;
}

orError_t check_struct_size(const char* function, const char* type, uint32_t given, size_t known) {
  // A larger value is an uninitialized struct_size rather than a newer struct.
  constexpr uint32_t kLargest = 4096;
  if (given >= known && given <= kLargest) return orSuccess;
  return fail(orErrorInvalidValue, "%s: struct_size is %u; set it to sizeof(%s), %zu", function, given, type,
              known);
}

orError_t Runtime::drain(int index) {
  auto* wait = driver_.device_drain ? driver_.device_drain : driver_.device_synchronize;
  return from_driver(wait(index));
}

orError_t Runtime::drain_all() {
  for (int index = 0; index < device_count_; ++index) {
    if (is_open(index)) OR_RETURN_IF_ERROR(drain(index));
  }
  return orSuccess;
}

orError_t Runtime::reset(int index) {
  Device& device = devices_[index];
  restore_device(index);
  if (!is_open(index)) return orSuccess;
  // Kernel failures are discarded with the streams. Other errors, such as a reset inside a kernel, are
  // returned.
  orError_t error;
  while ((error = driver_.device_synchronize(index)) == orErrorKernelFailed) {
  }
  OR_RETURN_IF_ERROR(from_driver(error));
  {
    std::unique_lock lock(device.state_mutex);
    if (device.state == Device::State::kClosing) {
      return fail(orErrorNotPermitted, "device %d is being reset by another thread", index);
    }
    if (device.state == Device::State::kClosed) return orSuccess;
    device.state = Device::State::kClosing;
    device.default_stream.store(0, std::memory_order_release);
    streams_.for_each([&](const StreamPin& pin) {
      if (pin->device == index) streams_.kill(pin);
    });
    events_.for_each([&](const EventPin& pin) {
      if (pin->device == index) events_.kill(pin);
    });
    graphs_.for_each([&](const GraphPin& pin) {
      if (pin->device == index) graphs_.kill(pin);
    });
    modules.unload_device(index);
  }
  for (int left; (left = device.alive.load(std::memory_order_acquire)) != 0;) device.alive.wait(left);
  while (driver_.device_synchronize(index) == orErrorKernelFailed) {
  }

  std::unique_lock lock(device.state_mutex);
  for (const Allocation& allocation : allocations.erase_device(index)) {
    if (allocation.named) {
      static_cast<void>(driver_.ipc_withdraw(index, reinterpret_cast<void*>(allocation.base), 1));
    }
    static_cast<void>(
        driver_.memory_free(index, reinterpret_cast<void*>(allocation.base), allocation.rounded));
  }
  error = driver_.device_close(index);
  device.state = Device::State::kClosed;
  return from_driver(error);
}

orError_t Runtime::pin_default_stream(int index, StreamPin& pin) {
  Device& device = devices_[index];
  for (;;) {
    const uint64_t handle = device.default_stream.load(std::memory_order_acquire);
    if (handle && (pin = streams_.pin(handle))) return orSuccess;
    std::unique_lock lock(device.state_mutex);
    OR_RETURN_IF_ERROR(open_locked(index));
  }
}

orError_t Runtime::pin_stream(orStream_t handle, StreamPin& pin) {
  if (!handle) {
    int index;
    OR_RETURN_IF_ERROR(current_device(index));
    return pin_default_stream(index, pin);
  }
  pin = streams_.pin(reinterpret_cast<uint64_t>(handle));
  if (pin) [[likely]]
    return orSuccess;
  return fail(orErrorInvalidHandle, "%p is not a stream, or the stream was destroyed",
              reinterpret_cast<void*>(handle));
}

bool Runtime::find_stream(int device, uint64_t id, StreamPin& pin) {
  streams_.for_each([&](StreamPin& live) {
    if (live->device == device && live->id == id) pin = std::move(live);
  });
  return static_cast<bool>(pin);
}

orError_t Runtime::pin_event(orEvent_t handle, EventPin& pin) {
  pin = events_.pin(reinterpret_cast<uint64_t>(handle));
  if (pin) return orSuccess;
  return fail(orErrorInvalidHandle, "%p is not an event, or the event was destroyed",
              reinterpret_cast<void*>(handle));
}

orError_t Runtime::pin_graph(orGraph_t handle, GraphPin& pin) {
  pin = graphs_.pin(reinterpret_cast<uint64_t>(handle));
  if (pin) return orSuccess;
  return fail(orErrorInvalidHandle, "%p is not a graph, or the graph was destroyed",
              reinterpret_cast<void*>(handle));
}

orError_t Runtime::make_stream(int index, int priority, uint64_t id, uint64_t& handle) {
  Device& device = devices_[index];
  StreamInfo info{nullptr, index, priority, id};
  OR_RETURN_IF_ERROR(from_driver(driver_.stream_create(index, priority, id, &info.driver)));
  OR_RETURN_IF_ERROR(check_created(info.driver, "stream_create", driver_.name));
  handle = streams_.insert(info);
  if (!handle) {
    static_cast<void>(driver_.stream_destroy(info.driver));
    return fail(orErrorOutOfHostMemory, "too many live streams; destroy some");
  }
  device.alive.fetch_add(1, std::memory_order_relaxed);
  return orSuccess;
}

orError_t Runtime::create_stream(int index, int priority, uint64_t& handle) {
  const orDeviceProperties& properties = devices_[index].properties;
  priority = std::clamp(priority, properties.greatest_priority, properties.least_priority);
  std::shared_lock<std::shared_mutex> open;
  OR_RETURN_IF_ERROR(hold_open(index, open));
  return make_stream(index, priority, next_stream_id_.fetch_add(1, std::memory_order_relaxed), handle);
}

orError_t Runtime::create_event(int index, unsigned flags, uint64_t& handle) {
  std::shared_lock<std::shared_mutex> open;
  OR_RETURN_IF_ERROR(hold_open(index, open));
  EventInfo info{nullptr, index, flags};
  OR_RETURN_IF_ERROR(from_driver(driver_.event_create(index, flags, &info.driver)));
  OR_RETURN_IF_ERROR(check_created(info.driver, "event_create", driver_.name));
  return add_event(info, handle);
}

orError_t Runtime::open_event(const orIpcEventHandle_t& shared, uint64_t& handle) {
  mark_used();
  EventInfo info{nullptr, 0, orEventDisableTiming | orEventInterprocess};
  OR_RETURN_IF_ERROR(from_driver(driver_.ipc_open_event(&shared, &info.device, &info.driver)));
  OR_RETURN_IF_ERROR(check_created(info.driver, "ipc_open_event", driver_.name));
  std::shared_lock<std::shared_mutex> open;
  orError_t error = check_driver_device(info.device, "ipc_open_event");
  if (error == orSuccess) error = hold_open(info.device, open);
  if (error != orSuccess) {
    static_cast<void>(driver_.event_destroy(info.driver));
    return error;
  }
  return add_event(info, handle);
}

orError_t Runtime::add_event(const EventInfo& info, uint64_t& handle) {
  handle = events_.insert(info);
  if (!handle) {
    static_cast<void>(driver_.event_destroy(info.driver));
    return fail(orErrorOutOfHostMemory, "too many live events; destroy some");
  }
  devices_[info.device].alive.fetch_add(1, std::memory_order_relaxed);
  return orSuccess;
}

orError_t Runtime::destroy_stream(orStream_t handle) {
  if (!handle) {
    return fail(orErrorNotPermitted, "the default stream (NULL) cannot be destroyed");
  }
  StreamPin pin;
  OR_RETURN_IF_ERROR(pin_stream(handle, pin));
  if (pin->id == 0) {
    return fail(orErrorNotPermitted, "%p is the default stream of device %d, which cannot be destroyed",
                reinterpret_cast<void*>(handle), pin->device);
  }
  if (streams_.kill(pin)) return orSuccess;
  return fail(orErrorInvalidHandle, "the stream %p was destroyed by another thread",
              reinterpret_cast<void*>(handle));
}

orError_t Runtime::destroy_event(orEvent_t handle) {
  EventPin pin;
  OR_RETURN_IF_ERROR(pin_event(handle, pin));
  if (events_.kill(pin)) return orSuccess;
  return fail(orErrorInvalidHandle, "the event %p was destroyed by another thread",
              reinterpret_cast<void*>(handle));
}

orError_t Runtime::add_graph(const GraphInfo& info, uint64_t& handle) {
  handle = graphs_.insert(info);
  if (!handle) {
    static_cast<void>(driver_.graph_destroy(info.driver));
    return fail(orErrorOutOfHostMemory, "too many live graphs; destroy some");
  }
  devices_[info.device].alive.fetch_add(1, std::memory_order_relaxed);
  return orSuccess;
}

orError_t Runtime::destroy_graph(orGraph_t handle) {
  GraphPin pin;
  OR_RETURN_IF_ERROR(pin_graph(handle, pin));
  if (graphs_.kill(pin)) return orSuccess;
  return fail(orErrorInvalidHandle, "the graph %p was destroyed by another thread",
              reinterpret_cast<void*>(handle));
}

orError_t Runtime::check_device_code(const char* function) const {
  if (driver_.module_load) return orSuccess;
  return fail(orErrorNotSupported, "%s: the driver '%s' has no device code (OR_CAP_DEVICE_CODE)", function,
              driver_.name);
}

orError_t Runtime::load_module(int index, const void* image, size_t size, uint64_t& handle) {
  std::shared_lock<std::shared_mutex> open;
  OR_RETURN_IF_ERROR(hold_open(index, open));
  ModuleInfo info{nullptr, index};
  OR_RETURN_IF_ERROR(from_driver(driver_.module_load(index, image, size, &info.driver)));
  OR_RETURN_IF_ERROR(check_created(info.driver, "module_load", driver_.name));
  handle = modules.insert(info);
  if (!handle) {
    static_cast<void>(driver_.module_unload(info.driver));
    return fail(orErrorOutOfHostMemory, "too many live modules; unload some");
  }
  devices_[index].alive.fetch_add(1, std::memory_order_relaxed);
  return orSuccess;
}

orError_t Runtime::defer_kernel(uint64_t& handle) {
  if (!driver_.kernel_defer) {
    return fail(orErrorNotSupported, "orKernelDefer: the driver '%s' has no deferred kernels", driver_.name);
  }
  DeferredInfo info{};
  OR_RETURN_IF_ERROR(from_driver(driver_.kernel_defer(&info.driver)));
  OR_RETURN_IF_ERROR(check_created(info.driver, "kernel_defer", driver_.name));
  handle = deferred_.insert(info);
  if (handle != 0) return orSuccess;
  static_cast<void>(driver_.kernel_finish(info.driver, orSuccess, nullptr));
  return fail(orErrorOutOfHostMemory, "too many deferred kernels; finish some");
}

orError_t Runtime::finish_kernel(orDeferred_t handle, orError_t result, const char* why) {
  DeferredPin pin = deferred_.pin(reinterpret_cast<uint64_t>(handle));
  if (!pin || !deferred_.kill(pin)) {
    return fail(orErrorInvalidHandle,
                "orKernelFinish: %p is not a deferred kernel, or it was finished before",
                reinterpret_cast<void*>(handle));
  }
  return from_driver(driver_.kernel_finish(pin->driver, result, why));
}

}  // namespace openreg

extern "C" int orIsForked(void) {
  return openreg::Runtime::forked() ? 1 : 0;
}
