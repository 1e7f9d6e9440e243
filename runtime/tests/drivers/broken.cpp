// Drivers that break one rule each: the simulated device with a changed table. The variable BROKEN_DRIVER
// chooses the change by its name. "check: what" is found by that check of openreg-driver-check; the others
// are rejected when the driver is loaded.
#include <openreg/driver.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <thread>

extern "C" const orDriver* openreg_sim_driver();

namespace {

const orDriver& good = *openreg_sim_driver();
orDriver table = good;
const orHost* host = nullptr;

struct Change {
  const char* name;
  void (*apply)();
};

orError_t keep_host(const orHost* given) {
  host = given;
  return good.init(given);
}

template <auto Run>
orError_t init_and(const orHost* given) {
  Run();
  return good.init(given);
}

// A stream apart from all others, on which work runs without any order.
orDriverStream* apart() {
  static orDriverStream* stream = [] {
    orDriverStream* made = nullptr;
    return good.stream_create(0, 0, 999, &made) == orSuccess ? made : nullptr;
  }();
  return stream;
}

orError_t copy_apart(orDriverStream*, void* dst, const void* src, size_t size, orMemcpyKind kind,
                     const orObserver* observer) {
  const orError_t error = good.stream_copy(apart(), dst, src, size, kind, observer);
  return error == orSuccess ? good.stream_synchronize(apart()) : error;
}

struct Forwarded {
  const orKernel* kernel;
  const void* args;
};
constexpr orKernel kForward = {"check",
                               [](void* args, char* why, size_t size) {
                                 const auto& forwarded = *static_cast<Forwarded*>(args);
                                 return forwarded.kernel->run(const_cast<void*>(forwarded.args), why, size);
                               },
                               nullptr};

void offer_functions_that_do_nothing() {
  table.capabilities |= OR_CAP_DEVICE_CODE;
  table.device_properties = [](int device, orDeviceProperties* properties) {
    const orError_t error = good.device_properties(device, properties);
    return properties->capabilities |= OR_CAP_DEVICE_CODE, error;
  };
  table.module_load = [](int, const void*, size_t, orDriverModule** module) {
    return *module = reinterpret_cast<orDriverModule*>(1), orSuccess;
  };
  table.module_unload = [](orDriverModule*) { return orSuccess; };
  table.module_function = [](orDriverModule*, const char*, orDriverFunction** function) {
    return *function = reinterpret_cast<orDriverFunction*>(1), orSuccess;
  };
  table.stream_launch_function = [](orDriverStream*, orDriverFunction*, const orLaunchConfig*, const void*,
                                    size_t, const orObserver*) { return orSuccess; };
}

const Change kChanges[] = {
    {"none", [] {}},
    // ---- Rejected when the driver is loaded.
    {"required entry", [] { table.stream_copy = nullptr; }},
    {"incomplete group", [] { table.graph_node = nullptr; }},
    {"capability without entry", [] { table.kernel_view_offset = nullptr; }},
    {"version 0", [] { table.version = 0; }},
    {"short table", [] { table.struct_size = 16; }},
    {"uninitialized size", [] { table.struct_size = 0xdeadbeef; }},
    {"size of a later version", [] { table.struct_size += 8; }},
    {"newer runtime", [] { table.oldest_runtime = OR_DRIVER_VERSION + 1; }},
    {"no name", [] { table.name = nullptr; }},
    {"init",
     [] {
       table.init = [](const orHost* given) {
         given->report("the firmware has version 3; this driver needs 4");
         return orErrorSystem;
       };
     }},
    {"granularity 0",
     [] {
       table.device_properties = [](int device, orDeviceProperties* properties) {
         const orError_t error = good.device_properties(device, properties);
         return properties->allocation_granularity = 0, error;
       };
     }},
    // ---- Found by the runtime in use.
    {"no memory",
     [] { table.memory_alloc = [](int, size_t, void** ptr) { return *ptr = nullptr, orSuccess; }; }},
    {"unknown error",
     [] { table.memory_alloc = [](int, size_t, void**) { return static_cast<orError_t>(4711); }; }},
    {"unknown error with a message",
     [] {
       table.init = &keep_host;
       table.memory_alloc = [](int, size_t, void**) {
         host->report("the channel is closed");
         return static_cast<orError_t>(4711);
       };
     }},
    {"first free fails",
     [] {
       table.memory_free = [](int device, void* ptr, size_t size) {
         static bool failed = false;
         if (!failed) return failed = true, orErrorSystem;
         return good.memory_free(device, ptr, size);
       };
     }},
    {"too many devices",
     [] { table.device_count = [](int* count) { return *count = OR_MAX_DEVICES + 1, orSuccess; }; }},
    {"init with an invalid message",
     [] {
       table.init = [](const orHost* given) {
         given->report("bad \xff end");
         return orErrorSystem;
       };
     }},
    {"invalid name", [] { table.name = "bad \xff end"; }},
    // Success without an object.
    {"no stream",
     [] { table.stream_create = [](int, int, uint64_t, orDriverStream**) { return orSuccess; }; }},
    {"no event", [] { table.event_create = [](int, unsigned, orDriverEvent**) { return orSuccess; }; }},
    {"no graph",
     [] { table.stream_end_capture = [](orDriverStream*, orDriverGraph**, size_t*) { return orSuccess; }; }},
    {"no pinned memory", [] { table.host_alloc = [](size_t, void**) { return orSuccess; }; }},
    {"no deferred kernel", [] { table.kernel_defer = [](orDriverDeferred**) { return orSuccess; }; }},
    {"no module",
     [] {
       offer_functions_that_do_nothing();
       table.module_load = [](int, const void*, size_t, orDriverModule**) { return orSuccess; };
     }},
    {"no function",
     [] {
       offer_functions_that_do_nothing();
       table.module_function = [](orDriverModule*, const char*, orDriverFunction**) { return orSuccess; };
     }},
    {"no shared memory",
     [] { table.ipc_open = [](const orIpcMemHandle_t*, orDriverIpcMemory*) { return orSuccess; }; }},
    {"shared memory of another device",
     [] {
       table.ipc_open = [](const orIpcMemHandle_t*, orDriverIpcMemory* memory) {
         static char bytes[64];
         return *memory = {99, bytes, 64, bytes, 64}, orSuccess;
       };
     }},
    {"no shared event",
     [] {
       table.ipc_open_event = [](const orIpcEventHandle_t*, int*, orDriverEvent**) { return orSuccess; };
     }},
    {"shared event of another device",
     [] {
       table.ipc_open_event = [](const orIpcEventHandle_t*, int* device, orDriverEvent** event) {
         *device = 99;
         return good.event_create(0, orEventDisableTiming, event);
       };
     }},

    // ---- Devices
    {"device-count: changes",
     [] {
       table.device_count = [](int* count) {
         static int next = 2;
         return *count = next++, orSuccess;
       };
     }},
    {"device-properties: granularity",
     [] {
       table.device_properties = [](int device, orDeviceProperties* properties) {
         const orError_t error = good.device_properties(device, properties);
         properties->allocation_granularity = 500;
         return error;
       };
     }},
    {"device-properties: invalid name",
     [] {
       table.device_properties = [](int device, orDeviceProperties* properties) {
         const orError_t error = good.device_properties(device, properties);
         std::memset(properties->name, 'x', sizeof(properties->name));  // no end
         std::memcpy(properties->name, "bad \xff", 5);
         return error;
       };
     }},
    {"device-properties: invalid name of the driver", [] { table.name = "bad \xff end"; }},
    {"device-properties-size: writes beyond",
     [] {
       table.device_properties = [](int device, orDeviceProperties* properties) {
         const orError_t error = good.device_properties(device, properties);
         reinterpret_cast<uint64_t*>(properties + 1)[2] = 1;
         return error;
       };
     }},
    {"device-init: starts a thread",
     [] {
       table.init = init_and<[] {
         static std::atomic<bool> never{false};
         std::thread([] { never.wait(false); }).detach();
       }>;
     }},
    {"device-reopen: opens once",
     [] {
       table.device_open = [](int device) {
         static int opened = 0;
         return opened++ == 0 ? good.device_open(device) : orErrorSystem;
       };
     }},
    {"device-synchronize: does not wait", [] { table.device_synchronize = [](int) { return orSuccess; }; }},

    // ---- Memory
    {"memory-blocks: not aligned",
     [] {
       table.memory_alloc = [](int device, size_t size, void** ptr) {
         const orError_t error = good.memory_alloc(device, size + 512, ptr);
         *ptr = static_cast<char*>(*ptr) + 64;
         return error;
       };
       table.memory_free = [](int device, void* ptr, size_t size) {
         return good.memory_free(device, static_cast<char*>(ptr) - 64, size + 512);
       };
     }},
    {"memory-exhaustion: NULL",
     [] {
       table.memory_alloc = [](int device, size_t size, void** ptr) {
         *ptr = nullptr;
         return good.memory_alloc(device, size, ptr), orSuccess;
       };
     }},
    {"memory-exhaustion: another code",
     [] {
       table.memory_alloc = [](int device, size_t size, void** ptr) {
         return good.memory_alloc(device, size, ptr) == orSuccess ? orSuccess : orErrorSystem;
       };
     }},
    {"memory-exhaustion: leaks", [] { table.memory_free = [](int, void*, size_t) { return orSuccess; }; }},
    {"memory-info: all free",
     [] {
       table.memory_info = [](int device, size_t* free, size_t* total) {
         const orError_t error = good.memory_info(device, free, total);
         return *free = *total, error;
       };
     }},
    {"memory-pinned: not aligned",
     [] {
       table.host_alloc = [](size_t size, void** ptr) {
         const orError_t error = good.host_alloc(size + 1, ptr);
         return *ptr = static_cast<char*>(*ptr) + 1, error;
       };
     }},
    {"memory-kernel-view: wrong offset",
     [] {
       table.kernel_view_offset = [](int device, ptrdiff_t* offset) {
         const orError_t error = good.kernel_view_offset(device, offset);
         return *offset += 8, error;
       };
     }},

    // ---- Copies
    {"copy-host: one byte less",
     [] {
       table.stream_copy = [](orDriverStream* stream, void* dst, const void* src, size_t size,
                              orMemcpyKind kind, const orObserver* observer) {
         return good.stream_copy(stream, dst, src, size - 1, kind, observer);
       };
     }},
    {"copy-bounds: one byte more",
     [] {
       table.stream_copy = [](orDriverStream* stream, void* dst, const void* src, size_t size,
                              orMemcpyKind kind, const orObserver* observer) {
         return good.stream_copy(stream, dst, src, size + (size == 100 ? 1 : 0), kind, observer);
       };
     }},
    {"copy-device: nothing",
     [] {
       table.stream_copy = [](orDriverStream* stream, void* dst, const void* src, size_t size,
                              orMemcpyKind kind, const orObserver* observer) {
         if (kind == orMemcpyDeviceToDevice) return orSuccess;
         return good.stream_copy(stream, dst, src, size, kind, observer);
       };
     }},
    {"copy-large: the first 64 MiB",
     [] {
       table.stream_copy = [](orDriverStream* stream, void* dst, const void* src, size_t size,
                              orMemcpyKind kind, const orObserver* observer) {
         return good.stream_copy(stream, dst, src, std::min(size, size_t{64} << 20), kind, observer);
       };
     }},
    {"copy-order: without order", [] { table.stream_copy = copy_apart; }},
    {"fill: the high byte",
     [] {
       table.stream_fill = [](orDriverStream* stream, void* ptr, int value, size_t size,
                              const orObserver* observer) {
         return good.stream_fill(stream, ptr, value >> 8, size, observer);
       };
     }},

    // ---- Streams
    {"stream-order: two queues",
     [] {
       table.stream_launch = [](orDriverStream* stream, const orKernel* kernel, const void* args, size_t size,
                                const orObserver* observer) {
         static bool odd = false;
         odd = !odd;
         return good.stream_launch(odd ? apart() : stream, kernel, args, size, observer);
       };
     }},
    {"stream-synchronize: does not wait",
     [] { table.stream_synchronize = [](orDriverStream*) { return orSuccess; }; }},
    {"stream-query: always complete", [] { table.stream_query = [](orDriverStream*) { return orSuccess; }; }},
    {"stream-query: runs inside the call, never ready",
     [] {
       table.stream_launch = [](orDriverStream*, const orKernel* kernel, const void* args, size_t size,
                                const orObserver*) {
         char why[64], copy[64];
         std::memcpy(copy, args, size);
         const orError_t error = kernel->run(copy, why, sizeof(why));
         if (kernel->release) kernel->release(copy);
         return error;
       };
       table.stream_query = [](orDriverStream*) { return orErrorNotReady; };
     }},
    {"failure-abort: no effect",
     [] { table.stream_abort = [](orDriverStream*, const char*) { return orSuccess; }; }},
    {"failure-abort: no reason",
     [] {
       table.stream_abort = [](orDriverStream* stream, const char*) { return good.stream_abort(stream, ""); };
     }},
    {"stream-pending: always 0",
     [] { table.stream_pending = [](orDriverStream*, uint64_t* count) { return *count = 0, orSuccess; }; }},
    {"stream-independence: one queue",
     [] {
       table.stream_create = [](int, int, uint64_t, orDriverStream** stream) {
         return *stream = apart(), orSuccess;
       };
       table.stream_destroy = [](orDriverStream*) { return orSuccess; };
     }},
    {"stream-destroy: waits",
     [] {
       table.stream_destroy = [](orDriverStream* stream) {
         return good.stream_synchronize(stream), good.stream_destroy(stream);
       };
     }},
    {"stream-priorities: only 0",
     [] {
       table.stream_create = [](int device, int priority, uint64_t id, orDriverStream** stream) {
         return priority == 0 ? good.stream_create(device, priority, id, stream) : orErrorInvalidValue;
       };
     }},
    {"stream-schedules: ignored",
     [] { table.set_schedule = [](orSchedule, uint64_t) { return orSuccess; }; }},

    // ---- Kernels
    {"kernel-arguments: not copied",
     [] {
       table.stream_launch = [](orDriverStream* stream, const orKernel* kernel, const void* args, size_t size,
                                const orObserver* observer) {
         if (size <= sizeof(void*)) return good.stream_launch(stream, kernel, args, size, observer);
         const Forwarded forwarded = {kernel, args};
         return good.stream_launch(stream, &kForward, &forwarded, sizeof(forwarded), observer);
       };
     }},
    {"kernel-release: never",
     [] {
       table.stream_launch = [](orDriverStream* stream, const orKernel* kernel, const void* args, size_t size,
                                const orObserver* observer) {
         auto* unreleased = new orKernel{kernel->name, kernel->run, nullptr};
         return good.stream_launch(stream, unreleased, args, size, observer);
       };
     }},
    {"kernel-observer: never called",
     [] {
       table.stream_fill = [](orDriverStream* stream, void* ptr, int value, size_t size, const orObserver*) {
         return good.stream_fill(stream, ptr, value, size, nullptr);
       };
     }},
    {"kernel-run: not in stream order",
     [] {
       table.stream_launch = [](orDriverStream*, const orKernel* kernel, const void* args, size_t size,
                                const orObserver* observer) {
         return good.stream_launch(apart(), kernel, args, size, observer);
       };
       table.stream_run = [](orDriverStream*, const orKernel* kernel, void* args, const orObserver*) {
         char why[64];
         return kernel->run(args, why, sizeof(why));
       };
     }},
    {"kernel-deferred: does not wait",
     [] {
       table.kernel_defer = [](orDriverDeferred** deferred) {
         return *deferred = reinterpret_cast<orDriverDeferred*>(1), orSuccess;
       };
       table.kernel_finish = [](orDriverDeferred*, orError_t, const char*) { return orSuccess; };
     }},

    // ---- Failures
    {"failure-report: without a message",
     [] {
       table.init = keep_host;
       table.stream_synchronize = [](orDriverStream* stream) {
         const orError_t error = good.stream_synchronize(stream);
         if (error != orSuccess) host->report("something failed");
         return error;
       };
     }},
    {"failure-report: another code",
     [] {
       table.stream_synchronize = [](orDriverStream* stream) {
         return good.stream_synchronize(stream) == orSuccess ? orSuccess : orErrorSystem;
       };
     }},
    {"failure-query: clears",
     [] {
       table.stream_query = [](orDriverStream* stream) {
         const orError_t error = good.stream_query(stream);
         return error == orErrorKernelFailed ? good.stream_synchronize(stream) : error;
       };
     }},
    {"failure-device: not reported",
     [] { table.device_synchronize = [](int device) { return good.device_drain(device); }; }},
    {"failure-drain: reported", [] { table.device_drain = good.device_synchronize; }},
    {"failure-event: not reported",
     [] {
       table.event_synchronize = [](orDriverEvent* event) {
         return good.event_synchronize(event), orSuccess;
       };
     }},

    // ---- Events
    {"event-query: always complete", [] { table.event_query = [](orDriverEvent*) { return orSuccess; }; }},
    {"event-synchronize: does not wait",
     [] { table.event_synchronize = [](orDriverEvent*) { return orSuccess; }; }},
    {"event-position: waits for the device",
     [] { table.event_synchronize = [](orDriverEvent*) { return good.device_synchronize(0); }; }},
    {"event-wait: ignored",
     [] { table.stream_wait_event = [](orDriverStream*, orDriverEvent*) { return orSuccess; }; }},
    {"event-timing: seconds",
     [] {
       table.event_elapsed = [](orDriverEvent* start, orDriverEvent* end, float* milliseconds) {
         const orError_t error = good.event_elapsed(start, end, milliseconds);
         return *milliseconds /= 1000, error;
       };
     }},

    // ---- Device code
    {"function-missing: any name", &offer_functions_that_do_nothing},
    {"function-capture: nothing runs", &offer_functions_that_do_nothing},
    {"library-elementwise: nothing runs", &offer_functions_that_do_nothing},
    {"library-reduce: nothing runs", &offer_functions_that_do_nothing},
    {"library-matmul: nothing runs", &offer_functions_that_do_nothing},
    {"library-index: nothing runs", &offer_functions_that_do_nothing},
    {"library-index-range: not checked", &offer_functions_that_do_nothing},

    // ---- Graphs, processes
    {"graph-replay: nothing runs",
     [] {
       table.graph_launch = [](orDriverGraph*, orDriverStream*, const orObserver*) { return orSuccess; };
     }},
    {"graph-status: never captured",
     [] {
       table.stream_capture_status = [](orDriverStream*, orCaptureStatus* status, uint64_t* id) {
         return *status = orCaptureNone, *id = 0, orSuccess;
       };
     }},
    {"ipc-forged: accepted",
     [] { table.ipc_open = [](const orIpcMemHandle_t*, orDriverIpcMemory*) { return orSuccess; }; }},
    {"ipc-share: close is not the last",
     [] {
       table.ipc_close = [](void* ptr, int* last) {
         const orError_t error = good.ipc_close(ptr, last);
         return *last = 0, error;
       };
     }},
    {"fork-before-use: the child aborts",
     [] { table.init = init_and<[] { pthread_atfork(nullptr, nullptr, [] { std::abort(); }); }>; }},
    {"exit: aborts", [] { table.init = init_and<[] { std::atexit([] { std::abort(); }); }>; }},
};

}  // namespace

const orDriver* orGetDriver(void) {
  const char* chosen = std::getenv("BROKEN_DRIVER");
  if (!chosen) return nullptr;
  for (const Change& change : kChanges) {
    if (!std::strcmp(change.name, chosen)) change.apply();
  }
  return &table;
}

/// The names of all changes, for tests. Returns NULL after the last one.
extern "C" [[gnu::visibility("default")]] const char* broken_driver_name(size_t index) {
  return index < std::size(kChanges) ? kChanges[index].name : nullptr;
}
