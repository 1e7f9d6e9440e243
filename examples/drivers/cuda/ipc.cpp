// Another chip: memory that its kernel driver can map into two processes, and a semaphore in such memory. A
// chip without it leaves these entries NULL and clears OR_CAP_IPC.
//
// Limit of CUDA: memory of a process that has ended must not be used, although it stays open here.
#include "ipc.h"

#include "device.h"
#include "event.h"
#include "handles.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace nv {
namespace {

using NativeHandle = std::array<unsigned char, kHandleSize>;

struct Named {
  int device;
  const void* base;
};

// An allocation of another process. CUDA opens it once in a process.
struct Import {
  CUdeviceptr base = 0;
  int device = 0;
  int open = 0;  // handles of it
};

struct Opened {
  void* ptr;
  OpenEntry entry;
  NativeHandle allocation;
};

struct Sharing {
  std::mutex mutex;  // guards everything below. Locks of devices and of handles are taken while it is held.
  std::map<uint32_t, Named> named;
  std::map<NativeHandle, Import> imports;
  std::vector<Opened> opened;
};

Sharing& sharing() {
  static auto* made = new Sharing;  // leaked: threads may use it while the process ends
  return *made;
}

// With the lock.
orError_t open_import(const SharedEntry& entry, Import& import) {
  if (import.open > 0) return orSuccess;
  Device& device = device_at(entry.device);
  NV_RETURN_IF_ERROR(open_context(device));
  const Current current(device);
  const auto native = std::bit_cast<CUipcHandle>(entry.native);
  const orError_t error = NV_CALL(ipc_open, &import.base, native, unsigned{kIpcLazyPeerAccess});
  if (error != orSuccess) {
    static_cast<void>(close_context(device));
    return error;
  }
  import.device = entry.device;
  return orSuccess;
}

orError_t close_import(const Import& import) {
  Device& device = device_at(import.device);
  orError_t error = orSuccess;
  {
    const Current current(device);
    error = NV_CALL(ipc_close, import.base);
  }
  const orError_t closed = close_context(device);
  return error ? error : closed;
}

orError_t check_device(const SharedEntry& entry) {
  int count = 0;
  NV_RETURN_IF_ERROR(count_devices(&count));
  if (entry.device >= 0 && entry.device < count) return orSuccess;
  return fail(orErrorInvalidDevice, "the handle is of device %d, and this process has %d devices",
              entry.device, count);
}

}  // namespace

// `base` comes from memory_alloc: CUDA's handle is that of the whole allocation.
orError_t ipc_name(int index, void* base, size_t base_size, void* ptr, size_t size,
                   orIpcMemHandle_t* handle) {
  return entry([&]() -> orError_t {
    CUipcHandle native;
    {
      const Current current(device_at(index));
      NV_RETURN_IF_ERROR(NV_CALL(ipc_get, &native, std::bit_cast<CUdeviceptr>(base)));
    }
    const auto offset = static_cast<uint64_t>(static_cast<char*>(ptr) - static_cast<char*>(base));
    Sharing& all = sharing();
    const std::lock_guard lock(all.mutex);
    OpenEntry created;
    NV_RETURN_IF_ERROR(create_handle(
        {SharedEntry::kMemory, index, offset, size, base_size, std::bit_cast<NativeHandle>(native)},
        handle->bytes, created));
    all.named[created.index] = {index, base};
    return orSuccess;
  });
}

orError_t ipc_retire(const orIpcMemHandle_t* handle) {
  return entry([&]() -> orError_t {
    Sharing& all = sharing();
    const std::lock_guard lock(all.mutex);
    const uint32_t number = own_handle(handle->bytes);
    if (number == 0 || !all.named.contains(number)) {
      return fail(orErrorInvalidHandle, "the handle is not one of this process, or is already retired");
    }
    if (!was_opened(number) || !remove_handle(number, false)) return orErrorNotReady;
    all.named.erase(number);
    return orSuccess;
  });
}

orError_t ipc_withdraw(int index, void* base, int force) {
  return entry([&]() -> orError_t {
    Sharing& all = sharing();
    const std::lock_guard lock(all.mutex);
    const auto is_of_base = [&](const auto& one) {
      return one.second.device == index && one.second.base == base;
    };
    const auto in_use = [&](const auto& one) { return is_of_base(one) && is_open(one.first); };
    const auto refuse = [&] {
      return fail(orErrorNotPermitted, "another process has the memory at %p of device %d open", base, index);
    };
    if (!force && std::ranges::any_of(all.named, in_use)) return refuse();
    for (auto one = all.named.begin(); one != all.named.end();) {
      if (!is_of_base(*one)) {
        ++one;
        continue;
      }
      if (!remove_handle(one->first, force != 0)) return refuse();
      one = all.named.erase(one);
    }
    return orSuccess;
  });
}

orError_t ipc_open(const orIpcMemHandle_t* handle, orDriverIpcMemory* memory) {
  return entry([&]() -> orError_t {
    Sharing& all = sharing();
    const std::lock_guard lock(all.mutex);
    SharedEntry shared;
    OpenEntry open;
    NV_RETURN_IF_ERROR(open_handle(handle->bytes, SharedEntry::kMemory, shared, open));
    Import& import = all.imports[shared.native];
    orError_t error = check_device(shared);
    if (error == orSuccess) error = open_import(shared, import);
    if (error != orSuccess) {
      if (import.open == 0) all.imports.erase(shared.native);
      close_handle(open);
      return error;
    }
    ++import.open;
    auto* base = std::bit_cast<char*>(import.base);
    *memory = {shared.device, base + shared.offset, shared.size, base, shared.base_size};
    all.opened.push_back({memory->ptr, open, shared.native});
    return orSuccess;
  });
}

orError_t ipc_close(void* ptr, int* last) {
  return entry([&]() -> orError_t {
    Sharing& all = sharing();
    const std::lock_guard lock(all.mutex);
    const auto found = std::ranges::find(all.opened, ptr, &Opened::ptr);
    if (found == all.opened.end()) {
      return fail(orErrorInvalidPointer, "%p is not memory of another process that is open here", ptr);
    }
    const Opened opened = *found;
    all.opened.erase(found);
    const auto import = all.imports.find(opened.allocation);
    *last = --import->second.open == 0;
    orError_t error = orSuccess;
    if (*last) {
      error = close_import(import->second);
      all.imports.erase(import);
    }
    close_handle(opened.entry);  // the owner may free the memory from here on
    return error;
  });
}

orError_t ipc_name_event(orDriverEvent* event, orIpcEventHandle_t* handle) {
  return entry([&] { return Event::of(event).shared()->name(*handle); });
}

orError_t ipc_open_event(const orIpcEventHandle_t* handle, int* device, orDriverEvent** event) {
  return entry([&]() -> orError_t {
    SharedEntry shared;
    OpenEntry open;
    NV_RETURN_IF_ERROR(open_handle(handle->bytes, SharedEntry::kEvent, shared, open));
    if (const orError_t error = check_device(shared)) {
      close_handle(open);
      return error;
    }
    auto opened = std::make_shared<SharedEvent>(device_at(shared.device));
    NV_RETURN_IF_ERROR(opened->open(shared, open));
    *device = shared.device;
    *event = Event::create(device_at(shared.device), orEventDisableTiming | orEventInterprocess,
                           std::move(opened));
    return orSuccess;
  });
}

}  // namespace nv
