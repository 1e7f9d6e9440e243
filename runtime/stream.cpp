// The stream functions of openreg.h.
#include "run.h"
#include "runtime.h"
#include "trace.h"
#include "watched_streams.h"

#include <utility>

using namespace openreg;

namespace {

orError_t check_kernel(const char* function, const orKernel* kernel) {
  if (!kernel) return fail(orErrorInvalidValue, "%s: kernel is NULL", function);
  if (!kernel->run) {
    return fail(orErrorInvalidValue, "%s: run of kernel '%s' is NULL", function,
                kernel->name ? kernel->name : "");
  }
  return orSuccess;
}

orError_t launch(Runtime& runtime, const StreamPin& stream, const char* function, orTraceKind kind,
                 const orKernel& kernel, const void* args, size_t args_size) {
  TracedWork* work = begin_traced(runtime, *stream, function, kind, kernel.name);
  if (!work) [[likely]] {
    return from_driver(runtime.driver().stream_launch(stream->driver, &kernel, args, args_size, nullptr));
  }
  const ReturnTrace returned(work);
  const orObserver observer = work->observer();
  const orError_t error =
      from_driver(runtime.driver().stream_launch(stream->driver, &kernel, args, args_size, &observer));
  if (error) work->rejected(error);
  return error;
}

// For drivers without stream_run: a kernel whose argument block has the address of the caller's block, which
// is not copied.
struct ForwardedArgs {
  const orKernel* kernel;
  void* args;
};

orError_t run_forwarded(void* args, char* why, size_t why_size) {
  const auto& forwarded = *static_cast<const ForwardedArgs*>(args);
  return forwarded.kernel->run(forwarded.args, why, why_size);
}

void release_forwarded(void* args) {
  const auto& forwarded = *static_cast<const ForwardedArgs*>(args);
  if (forwarded.kernel->release) forwarded.kernel->release(forwarded.args);
}

orError_t driver_run(const orDriver& driver, orDriverStream* stream, const orKernel& kernel, void* args,
                     const orObserver* observer) {
  if (driver.stream_run) return from_driver(driver.stream_run(stream, &kernel, args, observer));
  OR_RETURN_IF_ERROR(from_driver(driver.stream_synchronize(stream)));
  const orKernel wrapper = {kernel.name, &run_forwarded, &release_forwarded};
  const ForwardedArgs forwarded = {&kernel, args};
  OR_RETURN_IF_ERROR(
      from_driver(driver.stream_launch(stream, &wrapper, &forwarded, sizeof(forwarded), observer)));
  return from_driver(driver.stream_synchronize(stream));
}

// Observer of run_now. It clears `work`. If `work` is still set after the call, the kernel did not run:
// earlier work failed, or the driver rejected the call.
void run_done(void* slot, int64_t start_ns, int64_t end_ns, orError_t result) {
  auto& work = *static_cast<TracedWork**>(slot);
  TracedWork::done(std::exchange(work, nullptr), start_ns, end_ns, result);
}

struct HostCall {
  orHostFunction function;
  void* user;
};

orError_t run_host_call(void* args, char*, size_t) {
  const auto& call = *static_cast<const HostCall*>(args);
  call.function(call.user);
  return orSuccess;
}

constexpr orKernel kHostCall = {"host function", &run_host_call, nullptr};

orError_t create(EntryPoint entry, orStream_t* stream, int priority) {
  if (!stream) return fail(orErrorInvalidValue, "orStreamCreate: stream is NULL");
  return with_runtime({entry}, [&](Runtime& runtime) -> orError_t {
    int device;
    OR_RETURN_IF_ERROR(runtime.current_device(device));
    uint64_t handle;
    OR_RETURN_IF_ERROR(runtime.create_stream(device, priority, handle));
    *stream = as_stream(handle);
    return orSuccess;
  });
}

}  // namespace

orError_t openreg::run_now(Runtime& runtime, const StreamInfo& stream, const orKernel& kernel, void* args,
                           TracedWork* work) {
  if (!work) [[likely]]
    return driver_run(runtime.driver(), stream.driver, kernel, args, nullptr);
  const ReturnTrace returned(work);
  const orObserver observer = {&run_done, &work};
  const orError_t error = driver_run(runtime.driver(), stream.driver, kernel, args, &observer);
  if (work) work->rejected(error);
  return error;
}

extern "C" {

orError_t orStreamGetDefault(orStream_t* stream) {
  if (!stream) return fail(orErrorInvalidValue, "orStreamGetDefault: stream is NULL");
  return with_runtime({EntryPoint::orStreamGetDefault}, [&](Runtime& runtime) -> orError_t {
    int device;
    OR_RETURN_IF_ERROR(runtime.current_device(device));
    std::shared_lock<std::shared_mutex> open;
    OR_RETURN_IF_ERROR(runtime.hold_open(device, open));
    *stream = as_stream(runtime.device(device).default_stream.load(std::memory_order_acquire));
    return orSuccess;
  });
}

orError_t orStreamCreate(orStream_t* stream) {
  // Clamped to the lowest priority.
  return create(EntryPoint::orStreamCreate, stream, INT32_MAX);
}

orError_t orStreamCreateWithPriority(orStream_t* stream, int priority) {
  return create(EntryPoint::orStreamCreateWithPriority, stream, priority);
}

orError_t orStreamDestroy(orStream_t stream) {
  return with_runtime({EntryPoint::orStreamDestroy, stream},
                      [&](Runtime& runtime) { return runtime.destroy_stream(stream); });
}

orError_t orStreamQuery(orStream_t stream) {
  return with_runtime({EntryPoint::orStreamQuery, stream}, [&](Runtime& runtime) -> orError_t {
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    return from_driver(runtime.driver().stream_query(pin->driver));
  });
}

orError_t orStreamGetPending(orStream_t stream, uint64_t* count) {
  if (!count) return fail(orErrorInvalidValue, "orStreamGetPending: count is NULL");
  return with_runtime({EntryPoint::orStreamGetPending, stream}, [&](Runtime& runtime) -> orError_t {
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    const orDriver& driver = runtime.driver();
    if (driver.stream_pending) return from_driver(driver.stream_pending(pin->driver, count));
    const orError_t result = from_driver(driver.stream_query(pin->driver));
    if (result != orSuccess && result != orErrorNotReady && result != orErrorKernelFailed) return result;
    *count = result == orErrorNotReady ? 1 : 0;
    return orSuccess;
  });
}

orError_t orStreamSynchronize(orStream_t stream) {
  return with_runtime({EntryPoint::orStreamSynchronize, stream}, [&](Runtime& runtime) -> orError_t {
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    SynchronizeTrace trace("orStreamSynchronize", "stream synchronize", pin->device, pin->id);
    return trace.finish(from_driver(runtime.driver().stream_synchronize(pin->driver)));
  });
}

orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event) {
  return with_runtime({EntryPoint::orStreamWaitEvent, stream}, [&](Runtime& runtime) -> orError_t {
    StreamPin stream_pin;
    EventPin event_pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, stream_pin));
    OR_RETURN_IF_ERROR(runtime.pin_event(event, event_pin));
    if (WatchedStreams::on() && !runtime.captured(*stream_pin)) [[unlikely]]
      WatchedStreams::instance().waits(event, *event_pin, *stream_pin, runtime);
    return from_driver(runtime.driver().stream_wait_event(stream_pin->driver, event_pin->driver));
  });
}

orError_t orLaunchHostFunc(orStream_t stream, orHostFunction function, void* user) {
  if (!function) return fail(orErrorInvalidValue, "orLaunchHostFunc: function is NULL");
  return with_runtime({EntryPoint::orLaunchHostFunc, stream}, [&](Runtime& runtime) -> orError_t {
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    const HostCall call = {function, user};
    return launch(runtime, pin, "orLaunchHostFunc", orTraceHostFunc, kHostCall, &call, sizeof(call));
  });
}

orError_t orLaunchKernel(orStream_t stream, const orKernel* kernel, const void* args, size_t args_size) {
  return with_runtime({EntryPoint::orLaunchKernel, stream, kernel}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(check_kernel("orLaunchKernel", kernel));
    if (!args && args_size) {
      return fail(orErrorInvalidValue, "orLaunchKernel: args is NULL but args_size is %zu", args_size);
    }
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    return launch(runtime, pin, "orLaunchKernel", orTraceKernel, *kernel, args, args_size);
  });
}

orError_t orRunKernel(orStream_t stream, const orKernel* kernel, void* args) {
  return with_runtime({EntryPoint::orRunKernel, stream, kernel}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(check_kernel("orRunKernel", kernel));
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    TracedWork* work = begin_traced(runtime, *pin, "orRunKernel", orTraceKernel, kernel->name);
    return run_now(runtime, *pin, *kernel, args, work);
  });
}

orError_t orKernelDefer(orDeferred_t* deferred) {
  if (!deferred) return fail(orErrorInvalidValue, "orKernelDefer: deferred is NULL");
  return with_runtime({EntryPoint::orKernelDefer}, [&](Runtime& runtime) -> orError_t {
    uint64_t handle;
    OR_RETURN_IF_ERROR(runtime.defer_kernel(handle));
    *deferred = as_deferred(handle);
    return orSuccess;
  });
}

orError_t orKernelFinish(orDeferred_t deferred, orError_t result, const char* why) {
  return with_runtime({EntryPoint::orKernelFinish},
                      [&](Runtime& runtime) { return runtime.finish_kernel(deferred, result, why); });
}

orError_t orStreamGetDevice(orStream_t stream, int* device) {
  if (!device) return fail(orErrorInvalidValue, "orStreamGetDevice: device is NULL");
  return with_runtime({EntryPoint::orStreamGetDevice, stream}, [&](Runtime& runtime) -> orError_t {
    if (!stream) return runtime.current_device(*device);
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    *device = pin->device;
    return orSuccess;
  });
}

orError_t orStreamGetPriority(orStream_t stream, int* priority) {
  if (!priority) return fail(orErrorInvalidValue, "orStreamGetPriority: priority is NULL");
  return with_runtime({EntryPoint::orStreamGetPriority, stream}, [&](Runtime& runtime) -> orError_t {
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    *priority = pin->priority;
    return orSuccess;
  });
}

orError_t orStreamGetId(orStream_t stream, uint64_t* id) {
  if (!id) return fail(orErrorInvalidValue, "orStreamGetId: id is NULL");
  return with_runtime({EntryPoint::orStreamGetId, stream}, [&](Runtime& runtime) -> orError_t {
    *id = 0;
    if (!stream) return orSuccess;
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    *id = pin->id;
    return orSuccess;
  });
}

}  // extern "C"
