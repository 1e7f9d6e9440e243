// The interprocess sharing functions of openreg.h.
#include "runtime.h"

using namespace openreg;

namespace {

orError_t check_capability(const Runtime& runtime) {
  if (runtime.has_capability(OR_CAP_IPC)) return orSuccess;
  return fail(orErrorNotSupported, "the driver '%s' cannot share memory or events between processes",
              runtime.driver().name);
}

orError_t find_import(Runtime& runtime, const char* function, void* ptr, Allocation& import) {
  const PointerInfo info = runtime.allocations.find(ptr);
  if (!info.known || info.allocation.kind != AllocationKind::kImported) {
    return fail(orErrorInvalidPointer, "%s: %p is not memory of another process that is open here", function,
                ptr);
  }
  import = info.allocation;
  return orSuccess;
}

orError_t close_import(Runtime& runtime, void* ptr, const Allocation& import) {
  std::lock_guard lock(runtime.import_mutex);
  int last = 0;
  OR_RETURN_IF_ERROR(from_driver(runtime.driver().ipc_close(ptr, &last)));
  if (last) runtime.allocations.erase_import(import.base);
  return orSuccess;
}

orError_t check_opened(const Runtime& runtime, const orDriverIpcMemory& memory) {
  const char* driver = runtime.driver().name;
  OR_RETURN_IF_ERROR(check_created(memory.ptr, "ipc_open", driver));
  OR_RETURN_IF_ERROR(check_created(memory.base, "ipc_open", driver));
  OR_RETURN_IF_ERROR(runtime.check_driver_device(memory.device, "ipc_open"));
  const uintptr_t offset = reinterpret_cast<uintptr_t>(memory.ptr) - reinterpret_cast<uintptr_t>(memory.base);
  if (offset <= memory.base_size && memory.size <= memory.base_size - offset) return orSuccess;
  return fail(
      orErrorDriver,
      "ipc_open of the driver '%s' returned %zu bytes at %p, outside of their allocation of %zu bytes at "
      "%p",
      driver, memory.size, memory.ptr, memory.base_size, memory.base);
}

orError_t close_in_order(void*, char*, size_t) {
  return orSuccess;
}

// Closes in `release`, not in `run`, since dropped work is released too.
void release_in_order(void* args) {
  void* ptr = *static_cast<void**>(args);
  orError_t error;
  Runtime* runtime = Runtime::enter(error);
  Allocation import;
  if (!runtime || find_import(*runtime, "orIpcCloseMemHandleAsync", ptr, import)) return;
  static_cast<void>(close_import(*runtime, ptr, import));
}

constexpr orKernel kClose = {"close memory of another process", &close_in_order, &release_in_order};

}  // namespace

extern "C" {

orError_t orIpcGetMemHandle(orIpcMemHandle_t* handle, void* ptr, size_t size) {
  if (!handle) return fail(orErrorInvalidValue, "orIpcGetMemHandle: handle is NULL");
  if (size == 0) return fail(orErrorInvalidValue, "orIpcGetMemHandle: size is 0");
  return with_runtime({EntryPoint::orIpcGetMemHandle, ptr, size}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(check_capability(runtime));
    const PointerInfo info = runtime.allocations.find(ptr);
    const Allocation& allocation = info.allocation;
    if (info.known && allocation.kind == AllocationKind::kImported) {
      return fail(
          orErrorNotPermitted,
          "orIpcGetMemHandle: %p is memory of another process; only the process that allocated it can "
          "share it",
          ptr);
    }
    if (!info.known || allocation.kind != AllocationKind::kDevice) {
      return fail(orErrorInvalidPointer, "orIpcGetMemHandle: %p is not device memory of this process", ptr);
    }
    const size_t offset = reinterpret_cast<uintptr_t>(ptr) - allocation.base;
    if (size > allocation.size - offset) {
      return fail(orErrorInvalidValue,
                  "orIpcGetMemHandle: %zu bytes from offset %zu exceed the allocation of %zu bytes at %p",
                  size, offset, allocation.size, reinterpret_cast<void*>(allocation.base));
    }
    std::shared_lock open(runtime.device(allocation.device).state_mutex);
    runtime.allocations.mark_named(allocation.base);
    return from_driver(runtime.driver().ipc_name(allocation.device, reinterpret_cast<void*>(allocation.base),
                                                 allocation.size, ptr, size, handle));
  });
}

orError_t orIpcRetireMemHandle(const orIpcMemHandle_t* handle) {
  if (!handle) return fail(orErrorInvalidValue, "orIpcRetireMemHandle: handle is NULL");
  return with_runtime({EntryPoint::orIpcRetireMemHandle}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(check_capability(runtime));
    return from_driver(runtime.driver().ipc_retire(handle));
  });
}

orError_t orIpcOpenMemHandle(void** ptr, const orIpcMemHandle_t* handle) {
  if (!ptr || !handle)
    return fail(orErrorInvalidValue, "orIpcOpenMemHandle: %s is NULL", ptr ? "handle" : "ptr");
  return with_runtime({EntryPoint::orIpcOpenMemHandle}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(check_capability(runtime));
    runtime.mark_used();
    orDriverIpcMemory memory{};
    {
      std::lock_guard lock(runtime.import_mutex);
      OR_RETURN_IF_ERROR(from_driver(runtime.driver().ipc_open(handle, &memory)));
      if (const orError_t error = check_opened(runtime, memory)) {
        int last = 0;
        if (memory.ptr) static_cast<void>(runtime.driver().ipc_close(memory.ptr, &last));
        return error;
      }
      const Allocation import = {reinterpret_cast<uintptr_t>(memory.base), memory.base_size, memory.base_size,
                                 AllocationKind::kImported, memory.device};
      if (!runtime.allocations.insert_import(import)) {
        int last = 0;
        static_cast<void>(runtime.driver().ipc_close(memory.ptr, &last));
        return fail(orErrorDriver, "the driver opened memory at %p, which overlaps a live allocation",
                    memory.base);
      }
    }
    *ptr = memory.ptr;
    return orSuccess;
  });
}

orError_t orIpcCloseMemHandle(void* ptr) {
  return with_runtime({EntryPoint::orIpcCloseMemHandle, ptr}, [&](Runtime& runtime) -> orError_t {
    Allocation import;
    OR_RETURN_IF_ERROR(find_import(runtime, "orIpcCloseMemHandle", ptr, import));
    OR_RETURN_IF_ERROR(runtime.drain_all());  // work of any device may use the memory
    return close_import(runtime, ptr, import);
  });
}

orError_t orIpcCloseMemHandleAsync(void* ptr, orStream_t stream) {
  return with_runtime({EntryPoint::orIpcCloseMemHandleAsync, stream}, [&](Runtime& runtime) -> orError_t {
    Allocation import;
    OR_RETURN_IF_ERROR(find_import(runtime, "orIpcCloseMemHandleAsync", ptr, import));
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    return from_driver(runtime.driver().stream_launch(pin->driver, &kClose, &ptr, sizeof(ptr), nullptr));
  });
}

orError_t orIpcGetEventHandle(orIpcEventHandle_t* handle, orEvent_t event) {
  if (!handle) return fail(orErrorInvalidValue, "orIpcGetEventHandle: handle is NULL");
  return with_runtime({EntryPoint::orIpcGetEventHandle, event}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(check_capability(runtime));
    EventPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_event(event, pin));
    if (!(pin->flags & orEventInterprocess)) {
      return fail(
          orErrorInvalidValue,
          "orIpcGetEventHandle: the event was created without orEventInterprocess; create it with that "
          "and orEventDisableTiming");
    }
    return from_driver(runtime.driver().ipc_name_event(pin->driver, handle));
  });
}

orError_t orIpcOpenEventHandle(orEvent_t* event, const orIpcEventHandle_t* handle) {
  if (!event || !handle) {
    return fail(orErrorInvalidValue, "orIpcOpenEventHandle: %s is NULL", event ? "handle" : "event");
  }
  return with_runtime({EntryPoint::orIpcOpenEventHandle}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(check_capability(runtime));
    uint64_t opened = 0;
    OR_RETURN_IF_ERROR(runtime.open_event(*handle, opened));
    *event = as_event(opened);
    return orSuccess;
  });
}

}  // extern "C"
