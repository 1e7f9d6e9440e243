// Allocation and pointer functions of openreg.h. Copies are in copy.cpp.
#include "runtime.h"

#include <cstdlib>
#include <cstring>
#include <unistd.h>

using namespace openreg;

namespace {

const char* describe(const PointerInfo& info) {
  if (info.freed) return "device memory that was freed or never allocated";
  if (!info.known) return "not memory of this runtime";
  switch (info.allocation.kind) {
    case AllocationKind::kDevice:
      return "device memory";
    case AllocationKind::kImported:
      return "memory of another process, opened with orIpcOpenMemHandle";
    case AllocationKind::kPinned:
      return "pinned memory from orMallocHost";
    case AllocationKind::kRegistered:
      return "host memory pinned with orHostRegister";
  }
  return "";
}

orError_t fail_free(const char* function, const char* allocator, void* pointer, AllocationKind kind,
                    const PointerInfo& found) {
  const Allocation& allocation = found.allocation;
  if (found.known && allocation.kind == kind) {
    return fail(orErrorInvalidPointer,
                "%s: %p is %zu bytes inside an allocation of %zu bytes; pass its base, %p", function, pointer,
                reinterpret_cast<uintptr_t>(pointer) - allocation.base, allocation.size,
                reinterpret_cast<void*>(allocation.base));
  }
  return fail(orErrorInvalidPointer, "%s: %p is %s; pass a live pointer from %s", function, pointer,
              describe(found), allocator);
}

// After the first copy between devices, any device may be using the memory.
orError_t drain(Runtime& runtime, int device) {
  return runtime.peer_copies.load(std::memory_order_acquire) ? runtime.drain_all() : runtime.drain(device);
}

orError_t host_alloc(const orDriver& driver, size_t size, void** pointer) {
  if (driver.host_alloc) {
    OR_RETURN_IF_ERROR(from_driver(driver.host_alloc(size, pointer)));
    return check_created(*pointer, "host_alloc", driver.name);
  }
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  *pointer = size <= SIZE_MAX - page ? std::aligned_alloc(page, (size + page - 1) / page * page) : nullptr;
  if (*pointer) return orSuccess;
  return fail(orErrorOutOfHostMemory, "cannot allocate %zu bytes of pinned host memory", size);
}

void host_free(const orDriver& driver, void* pointer, size_t size) {
  if (driver.host_free) {
    static_cast<void>(driver.host_free(pointer, size));
  } else {
    std::free(pointer);
  }
}

}  // namespace

extern "C" {

orError_t orMalloc(void** ptr, size_t size) {
  if (!ptr) return fail(orErrorInvalidValue, "orMalloc: ptr is NULL");
  return with_runtime({EntryPoint::orMalloc, nullptr, size}, [&](Runtime& runtime) -> orError_t {
    int device;
    OR_RETURN_IF_ERROR(runtime.current_device(device));
    if (size == 0) {
      *ptr = nullptr;
      return orSuccess;
    }
    std::shared_lock<std::shared_mutex> open;
    OR_RETURN_IF_ERROR(runtime.hold_open(device, open));
    const size_t granularity = runtime.device(device).properties.allocation_granularity;
    const size_t most = SIZE_MAX / granularity * granularity;
    const size_t rounded = size > most ? most : (size + granularity - 1) / granularity * granularity;
    void* memory = nullptr;
    OR_RETURN_IF_ERROR(from_driver(runtime.driver().memory_alloc(device, rounded, &memory)));
    if (!memory) {
      return fail(orErrorDriver, "the driver '%s' returned NULL for %zu bytes of device memory, and no error",
                  runtime.driver().name, rounded);
    }
    const Allocation allocation = {reinterpret_cast<uintptr_t>(memory), size, rounded,
                                   AllocationKind::kDevice, device};
    if (!runtime.allocations.insert(allocation)) {
      static_cast<void>(runtime.driver().memory_free(device, memory, rounded));
      return fail(orErrorDriver, "the driver returned memory at %p, which overlaps a live allocation",
                  memory);
    }
    *ptr = memory;
    return orSuccess;
  });
}

orError_t orFree(void* ptr) {
  return with_runtime({EntryPoint::orFree, ptr}, [&](Runtime& runtime) -> orError_t {
    if (!ptr) return orSuccess;
    PointerInfo found;
    if (!runtime.allocations.claim(ptr, AllocationKind::kDevice, found)) {
      return fail_free("orFree", "orMalloc", ptr, AllocationKind::kDevice, found);
    }
    const Allocation& allocation = found.allocation;
    if (const orError_t error = drain(runtime, allocation.device)) {
      runtime.allocations.restore(allocation);
      return error;
    }
    if (allocation.named) {
      if (const orError_t error = from_driver(runtime.driver().ipc_withdraw(allocation.device, ptr, 0))) {
        runtime.allocations.restore(allocation);
        return error;
      }
    }
    // Erase the entry first: after memory_free the driver may return the same address to another thread.
    std::shared_lock open(runtime.device(allocation.device).state_mutex);
    if (!runtime.allocations.erase(allocation)) return orSuccess;
    const orError_t error =
        from_driver(runtime.driver().memory_free(allocation.device, ptr, allocation.rounded));
    if (error) {  // the memory stays allocated, and the caller may free it again
      Allocation kept = allocation;
      kept.freeing = false;
      static_cast<void>(runtime.allocations.insert(kept));
    }
    return error;
  });
}

orError_t orMallocHost(void** ptr, size_t size) {
  if (!ptr) return fail(orErrorInvalidValue, "orMallocHost: ptr is NULL");
  return with_runtime({EntryPoint::orMallocHost, nullptr, size}, [&](Runtime& runtime) -> orError_t {
    if (size == 0) {
      *ptr = nullptr;
      return orSuccess;
    }
    runtime.mark_used();
    void* memory = nullptr;
    OR_RETURN_IF_ERROR(host_alloc(runtime.driver(), size, &memory));
    const Allocation allocation = {reinterpret_cast<uintptr_t>(memory), size, size, AllocationKind::kPinned,
                                   -1};
    if (!runtime.allocations.insert(allocation)) {
      host_free(runtime.driver(), memory, size);
      return fail(orErrorDriver, "the driver returned pinned memory at %p, which overlaps a live allocation",
                  memory);
    }
    *ptr = memory;
    return orSuccess;
  });
}

orError_t orFreeHost(void* ptr) {
  return with_runtime({EntryPoint::orFreeHost}, [&](Runtime& runtime) -> orError_t {
    if (!ptr) return orSuccess;
    PointerInfo found;
    if (!runtime.allocations.claim(ptr, AllocationKind::kPinned, found)) {
      return fail_free("orFreeHost", "orMallocHost", ptr, AllocationKind::kPinned, found);
    }
    if (const orError_t error = runtime.drain_all()) {
      runtime.allocations.restore(found.allocation);
      return error;
    }
    static_cast<void>(runtime.allocations.erase(found.allocation));
    host_free(runtime.driver(), ptr, found.allocation.size);
    return orSuccess;
  });
}

orError_t orHostRegister(void* ptr, size_t size) {
  if (!ptr) return fail(orErrorInvalidValue, "orHostRegister: ptr is NULL");
  if (size == 0) return fail(orErrorInvalidValue, "orHostRegister: size is 0");
  return with_runtime({EntryPoint::orHostRegister, nullptr, size}, [&](Runtime& runtime) -> orError_t {
    const auto base = reinterpret_cast<uintptr_t>(ptr);
    if (size > UINTPTR_MAX - base) {
      return fail(orErrorInvalidValue, "orHostRegister: %zu bytes from %p exceed the address space", size,
                  ptr);
    }
    if (runtime.allocations.find(ptr).freed) {
      return fail(orErrorInvalidPointer, "orHostRegister: %p is device memory, not host memory", ptr);
    }
    runtime.mark_used();
    const Allocation allocation = {base, size, size, AllocationKind::kRegistered, -1};
    if (runtime.allocations.insert(allocation)) return orSuccess;
    return fail(orErrorInvalidValue,
                "orHostRegister: %zu bytes from %p overlap device memory or memory that is already pinned",
                size, ptr);
  });
}

orError_t orHostUnregister(void* ptr) {
  return with_runtime({EntryPoint::orHostUnregister}, [&](Runtime& runtime) -> orError_t {
    PointerInfo found;
    if (!runtime.allocations.claim(ptr, AllocationKind::kRegistered, found)) {
      return fail_free("orHostUnregister", "orHostRegister", ptr, AllocationKind::kRegistered, found);
    }
    if (const orError_t error = runtime.drain_all()) {
      runtime.allocations.restore(found.allocation);
      return error;
    }
    static_cast<void>(runtime.allocations.erase(found.allocation));
    return orSuccess;
  });
}

orError_t orMemGetInfo(size_t* free, size_t* total) {
  if (!free || !total) return fail(orErrorInvalidValue, "orMemGetInfo: %s is NULL", free ? "total" : "free");
  return with_runtime({EntryPoint::orMemGetInfo}, [&](Runtime& runtime) -> orError_t {
    int index;
    OR_RETURN_IF_ERROR(runtime.current_device(index));
    Device& device = runtime.device(index);
    std::shared_lock lock(device.state_mutex);
    if (device.state == Device::State::kOpen) {
      return from_driver(runtime.driver().memory_info(index, free, total));
    }
    *free = *total = device.properties.total_memory;  // do not open an unused device for this
    return orSuccess;
  });
}

orError_t orPointerGetAttributes(orPointerAttributes* attributes, const void* ptr) {
  if (!attributes) return fail(orErrorInvalidValue, "orPointerGetAttributes: attributes is NULL");
  return with_runtime({EntryPoint::orPointerGetAttributes, ptr}, [&](Runtime& runtime) -> orError_t {
    const uint32_t size = attributes->struct_size;
    OR_RETURN_IF_ERROR(check_struct_size("orPointerGetAttributes", "orPointerAttributes", size,
                                         sizeof(orPointerAttributes)));
    orPointerAttributes result = {size, orMemoryTypeUnregistered, -1, nullptr, 0, nullptr};
    const PointerInfo info = runtime.allocations.find(ptr);
    if (info.known) {
      const Allocation& allocation = info.allocation;
      const bool on_device = allocation.on_device();
      result.type = on_device ? orMemoryTypeDevice : orMemoryTypeHost;
      result.device = allocation.device;
      result.base = reinterpret_cast<void*>(allocation.base);
      result.size = allocation.size;
      ptrdiff_t offset = 0;
      if (on_device && runtime.driver().kernel_view_offset) {
        OR_RETURN_IF_ERROR(from_driver(runtime.driver().kernel_view_offset(allocation.device, &offset)));
      }
      if (runtime.has_capability(OR_CAP_HOST_EXECUTABLE)) {
        result.kernel_view = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(ptr) + offset);
      }
    }
    *attributes = result;
    return orSuccess;
  });
}

}  // extern "C"
