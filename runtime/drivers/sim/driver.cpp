// The driver table of the simulated device; see driver.h for the entries.
#include "openreg/driver.h"

#include "arena.h"
#include "capture.h"
#include "config.h"
#include "deferred.h"
#include "device.h"
#include "entry.h"
#include "error.h"
#include "event.h"
#include "executor.h"
#include "graph_entries.h"
#include "ipc.h"
#include "ipc_event_watcher.h"
#include "platform.h"
#include "schedule.h"
#include "shared_event.h"
#include "state.h"
#include "stream.h"

#include <cstdio>
#include <cstring>

namespace openreg::sim {
namespace {

// ---- Devices

constexpr uint64_t kCapabilities =
    OR_CAP_HOST_EXECUTABLE | OR_CAP_PEER_COPY | OR_CAP_TIMING | OR_CAP_PRIORITIES | OR_CAP_IPC;

orError_t init(const orHost* host) {
  set_host(host);
  return noexcept_boundary([&]() -> orError_t {
    if (const orError_t error = read_config(state().config)) return error;
    state().devices = new Device[static_cast<size_t>(state().config.device_count)];
    return orSuccess;
  });
}

orError_t count_devices(int* count) {
  *count = device_count();
  return orSuccess;
}

orError_t device_properties(int, orDeviceProperties* properties) {
  std::snprintf(properties->name, sizeof(properties->name), "%s", "simulated openreg");
  properties->total_memory = state().config.memory;
  properties->allocation_granularity = Arena::kGranularity;
  properties->major = 1;
  properties->minor = 0;
  properties->multi_processor_count = Executor::max_threads();
  properties->least_priority = 0;
  properties->greatest_priority = 1 - Executor::kPriorities;
  properties->capabilities = kCapabilities;
  return orSuccess;
}

orError_t device_open(int device) {
  return noexcept_boundary([&]() -> orError_t {
    std::lock_guard lock(state().open_mutex);
    const Config& config = state().config;
    if (const orError_t error = reserve_views(config.device_count, config.memory)) return error;
    return device_at(device).arena.open(device, config.memory);
  });
}

orError_t device_close(int device) {
  return noexcept_boundary([&] {
    std::lock_guard lock(state().open_mutex);
    device_at(device).clear_failures();
    return device_at(device).arena.close();
  });
}

orError_t kernel_view_offset(int, ptrdiff_t* offset) {
  *offset = view_offset();
  return orSuccess;
}

orError_t device_synchronize(int device) {
  return noexcept_boundary([&]() -> orError_t {
    if (device_at(device).running_here()) {
      return fail(orErrorNotPermitted, "a kernel cannot wait for device %d, on which it runs", device);
    }
    if (const orError_t error = Capture::check_wait(device)) return error;
    if (const orError_t error = device_at(device).wait()) return error;
    return device_at(device).take_failure();
  });
}

orError_t device_drain(int device) {
  return noexcept_boundary([&]() -> orError_t {
    if (const orError_t error = Capture::check_free(device, "freeing memory")) return error;
    return Stream::inside_kernel() ? device_at(device).check_idle_but_caller(device)
                                   : device_at(device).wait();
  });
}

// ---- Memory

orError_t memory_alloc(int device, size_t size, void** pointer) {
  return noexcept_boundary([&] { return device_at(device).arena.allocate(size, pointer); });
}

orError_t memory_free(int device, void* pointer, size_t size) {
  return noexcept_boundary([&] {
    device_at(device).arena.free(pointer, size);
    return orSuccess;
  });
}

orError_t memory_info(int device, size_t* free, size_t* total) {
  return noexcept_boundary([&] {
    *free = device_at(device).arena.free_bytes();
    *total = state().config.memory;
    return orSuccess;
  });
}

orError_t host_alloc(size_t size, void** pointer) {
  *pointer = platform::allocate_pages(size);
  if (*pointer) return orSuccess;
  return fail(orErrorOutOfHostMemory, "cannot allocate %zu bytes of pinned host memory", size);
}

orError_t host_free(void* pointer, size_t size) {
  platform::free_pages(pointer, size);
  return orSuccess;
}

// ---- Streams

orError_t stream_create(int device, int priority, uint64_t id, orDriverStream** stream) {
  return noexcept_boundary([&] {
    *stream = reinterpret_cast<orDriverStream*>(new Stream(device_at(device), device, priority, id));
    return orSuccess;
  });
}

orError_t stream_destroy(orDriverStream* stream) {
  if (const Ref<Capture> capture = capture_of(stream)) capture->abandon(unwrap(stream));
  unwrap(stream).release();
  return orSuccess;
}

orError_t stream_query(orDriverStream* stream) {
  if (const Ref<Capture> capture = capture_of(stream)) [[unlikely]]
    return capture->reject("querying a stream");
  if (!unwrap(stream).finished(unwrap(stream).submitted())) return orErrorNotReady;
  return unwrap(stream).pending_failure(nullptr);
}

orError_t stream_pending(orDriverStream* stream, uint64_t* count) {
  *count = unwrap(stream).pending();
  return orSuccess;
}

orError_t stream_synchronize(orDriverStream* stream) {
  return noexcept_boundary([&]() -> orError_t {
    if (const Ref<Capture> capture = capture_of(stream)) [[unlikely]]
      return capture->reject("synchronizing a stream");
    if (const orError_t error = unwrap(stream).wait(unwrap(stream).submitted())) return error;
    return unwrap(stream).take_failure(nullptr);
  });
}

orError_t stream_wait_event(orDriverStream* stream, orDriverEvent* event) {
  return noexcept_boundary([&]() -> orError_t {
    const Ref<Capture> capture = capture_of(stream);
    if (capture && unwrap(event).external()) return capture->add_event_wait(unwrap(stream), unwrap(event));
    Ref<Record> record = unwrap(event).latest();
    if (!record) return orSuccess;
    if (record->captured) {
      const Ref<Capture>& from = record->captured->capture;
      if (!capture || capture.get() == from.get()) return from->wait(unwrap(stream), *record->captured);
      static_cast<void>(from->reject("waiting in another capture for an event of this capture"));
      return capture->reject("waiting for an event of another capture");
    }
    if (capture)
      return capture->reject(
          "waiting for an event that was recorded outside of the capture (dependency created on uncaptured "
          "work in another stream)");
    submit_wait(unwrap(stream), std::move(record));
    return orSuccess;
  });
}

// A captured launch has no observer; see driver.h.
orError_t capture_launch(Capture& capture, orDriverStream* stream, Node node, const void* args,
                         size_t args_size, const orObserver* observer) {
  if (observer) return fail(orErrorCapture, "the stream's capture began during the call");
  return capture.add(unwrap(stream), std::move(node), args, args_size);
}

orError_t stream_launch(orDriverStream* stream, const orKernel* kernel, const void* args, size_t args_size,
                        const orObserver* observer) {
  return noexcept_boundary([&]() -> orError_t {
    if (const Ref<Capture> capture = capture_of(stream)) [[unlikely]] {
      Node node;
      node.kernel = kernel;
      return capture_launch(*capture, stream, std::move(node), args, args_size, observer);
    }
    unwrap(stream).launch(*kernel, args, args_size, observer);
    return orSuccess;
  });
}

orError_t stream_abort(orDriverStream* stream, const char* why) {
  return noexcept_boundary([&]() -> orError_t {
    unwrap(stream).abort(why);
    return orSuccess;
  });
}

orError_t kernel_defer(orDriverDeferred** deferred) {
  return noexcept_boundary([&]() -> orError_t {
    Deferred* made = nullptr;
    if (const orError_t error = Stream::defer(made)) return error;
    *deferred = reinterpret_cast<orDriverDeferred*>(made);
    return orSuccess;
  });
}

orError_t kernel_finish(orDriverDeferred* deferred, orError_t result, const char* why) {
  return noexcept_boundary([&]() -> orError_t {
    Stream::finish(std::unique_ptr<Deferred>(reinterpret_cast<Deferred*>(deferred)), result, why);
    return orSuccess;
  });
}

orError_t stream_run(orDriverStream* stream, const orKernel* kernel, void* args, const orObserver* observer) {
  return noexcept_boundary([&]() -> orError_t {
    if (const Ref<Capture> capture = capture_of(stream)) [[unlikely]] {
      char what[128];
      std::snprintf(what, sizeof(what), "running '%s' synchronously", kernel->name ? kernel->name : "");
      return capture->reject(what);
    }
    return unwrap(stream).run(*kernel, args, observer);
  });
}

struct CopyArgs {
  void* dst;
  const void* src;
  size_t size;
};

orError_t run_copy(void* args, char*, size_t) {
  const auto& copy = *static_cast<const CopyArgs*>(args);
  std::memmove(copy.dst, copy.src, copy.size);  // the ranges may overlap
  return orSuccess;
}

struct FillArgs {
  void* pointer;
  int value;
  size_t size;
};

orError_t run_fill(void* args, char*, size_t) {
  const auto& fill = *static_cast<const FillArgs*>(args);
  std::memset(fill.pointer, fill.value, fill.size);
  return orSuccess;
}

constexpr orKernel kCopy = {"copy", &run_copy, nullptr};
constexpr orKernel kFill = {"fill", &run_fill, nullptr};

const void* kernel_view(const void* pointer) {
  return static_cast<const char*>(pointer) + view_offset();
}

orError_t stream_copy(orDriverStream* stream, void* dst, const void* src, size_t size, orMemcpyKind kind,
                      const orObserver* observer) {
  const bool from_device = kind == orMemcpyDeviceToHost || kind == orMemcpyDeviceToDevice;
  const bool to_device = kind == orMemcpyHostToDevice || kind == orMemcpyDeviceToDevice;
  const CopyArgs args = {to_device ? const_cast<void*>(kernel_view(dst)) : dst,
                         from_device ? kernel_view(src) : src, size};
  return noexcept_boundary([&]() -> orError_t {
    if (const Ref<Capture> capture = capture_of(stream)) [[unlikely]] {
      Node node;
      node.kind = orGraphNodeMemcpy;
      node.kernel = &kCopy;
      node.size = size;
      node.copy_kind = kind;
      return capture_launch(*capture, stream, std::move(node), &args, sizeof(args), observer);
    }
    unwrap(stream).launch(kCopy, &args, sizeof(args), observer);
    return orSuccess;
  });
}

orError_t stream_fill(orDriverStream* stream, void* pointer, int value, size_t size,
                      const orObserver* observer) {
  const FillArgs args = {const_cast<void*>(kernel_view(pointer)), value, size};
  return noexcept_boundary([&]() -> orError_t {
    if (const Ref<Capture> capture = capture_of(stream)) [[unlikely]] {
      Node node;
      node.kind = orGraphNodeMemset;
      node.kernel = &kFill;
      node.size = size;
      return capture_launch(*capture, stream, std::move(node), &args, sizeof(args), observer);
    }
    unwrap(stream).launch(kFill, &args, sizeof(args), observer);
    return orSuccess;
  });
}

orError_t change_schedule(orSchedule schedule, uint64_t seed) {
  set_schedule(schedule, seed);
  return orSuccess;
}

// ---- Events

orError_t event_create(int device, unsigned flags, orDriverEvent** event) {
  return noexcept_boundary([&]() -> orError_t {
    Ref<SharedEvent> shared;
    if (flags & orEventInterprocess) {
      if (const orError_t error = SharedEvent::create(device, shared)) return error;
    }
    *event = reinterpret_cast<orDriverEvent*>(new Event(flags, std::move(shared)));
    return orSuccess;
  });
}

orError_t event_destroy(orDriverEvent* event) {
  unwrap(event).release();
  return orSuccess;
}

orError_t event_record(orDriverEvent* event, orDriverStream* stream) {
  return noexcept_boundary([&]() -> orError_t {
    if (const Ref<Capture> capture = capture_of(stream)) [[unlikely]]
      return capture->record(unwrap(stream), unwrap(event));
    unwrap(event).record(unwrap(stream));
    return orSuccess;
  });
}

orError_t event_query(orDriverEvent* event) {
  const Ref<Record> record = unwrap(event).latest();
  if (record && record->captured) return Capture::reject_event(*record->captured, "querying an event");
  if (record && !record->done()) return orErrorNotReady;
  return record && record->failure ? record->stream->pending_failure(record->failure.get()) : orSuccess;
}

orError_t event_synchronize(orDriverEvent* event) {
  return noexcept_boundary([&]() -> orError_t {
    const Ref<Record> record = unwrap(event).latest();
    if (!record) return orSuccess;
    if (record->captured) return Capture::reject_event(*record->captured, "synchronizing an event");
    if (record->is_of_other_process()) {
      record->wait_for_other_process();
      return orSuccess;
    }
    if (!record->done()) {
      if (const orError_t error = record->stream->wait(record->ticket)) return error;
    }
    return record->failure ? record->stream->take_failure(record->failure.get()) : orSuccess;
  });
}

orError_t event_elapsed(orDriverEvent* start, orDriverEvent* end, float* milliseconds) {
  const Ref<Record> first = unwrap(start).latest();
  const Ref<Record> second = unwrap(end).latest();
  if (!first || !second) {
    return fail(orErrorInvalidValue, "the %s event was never recorded", first ? "end" : "start");
  }
  for (const Ref<Record>& record : {first, second}) {
    if (record->captured) {
      return fail(
          orErrorCapture,
          "the %s event was recorded in a capture and has no timing; record it outside of the capture",
          record.get() == first.get() ? "start" : "end");
    }
  }
  if (!first->done() || !second->done()) return orErrorNotReady;
  *milliseconds = static_cast<float>(static_cast<double>(second->time_ns - first->time_ns) * 1e-6);
  return orSuccess;
}

constexpr orDriver kTable = {
    .struct_size = sizeof(orDriver),
    .version = OR_DRIVER_VERSION,
    .name = "sim",
    .capabilities = kCapabilities,
    .init = &init,
    .device_count = &count_devices,
    .device_properties = &device_properties,
    .device_open = &device_open,
    .device_close = &device_close,
    .kernel_view_offset = &kernel_view_offset,
    .memory_alloc = &memory_alloc,
    .memory_free = &memory_free,
    .memory_info = &memory_info,
    .host_alloc = &host_alloc,
    .host_free = &host_free,
    .stream_create = &stream_create,
    .stream_destroy = &stream_destroy,
    .stream_query = &stream_query,
    .stream_synchronize = &stream_synchronize,
    .stream_wait_event = &stream_wait_event,
    .stream_launch = &stream_launch,
    .stream_run = &stream_run,
    .stream_copy = &stream_copy,
    .stream_fill = &stream_fill,
    .device_synchronize = &device_synchronize,
    .set_schedule = &change_schedule,
    .event_create = &event_create,
    .event_destroy = &event_destroy,
    .event_record = &event_record,
    .event_query = &event_query,
    .event_synchronize = &event_synchronize,
    .event_elapsed = &event_elapsed,
    .device_drain = &device_drain,
    .stream_begin_capture = &stream_begin_capture,
    .stream_end_capture = &stream_end_capture,
    .stream_capture_status = &stream_capture_status,
    .stream_check_uncaptured = &stream_check_uncaptured,
    .device_check_uncaptured = &device_check_uncaptured,
    .graph_launch = &graph_launch,
    .graph_node = &graph_node,
    .graph_destroy = &graph_destroy,
    .ipc_name = &ipc_name,
    .ipc_retire = &ipc_retire,
    .ipc_withdraw = &ipc_withdraw,
    .ipc_open = &ipc_open,
    .ipc_close = &ipc_close,
    .ipc_name_event = &ipc_name_event,
    .ipc_open_event = &ipc_open_event,
    .stream_pending = &stream_pending,
    .stream_follows_event = &stream_follows_event,
    .kernel_defer = &kernel_defer,
    .kernel_finish = &kernel_finish,
    .oldest_runtime = 0,
    .reserved = 0,
    .module_load = nullptr,  // kernels are host code
    .module_unload = nullptr,
    .module_function = nullptr,
    .stream_launch_function = nullptr,
    .stream_native_handle = nullptr,
    .device_native_handle = nullptr,
    .stream_abort = &stream_abort,
};

}  // namespace
}  // namespace openreg::sim

extern "C" const orDriver* openreg_sim_driver() {
  return &openreg::sim::kTable;
}
