#include "ipc.h"

#include "arena.h"
#include "event.h"
#include "imports.h"
#include "ipc_registry.h"
#include "noexcept_boundary.h"
#include "shared_event.h"
#include "state.h"

#include <cstring>

namespace openreg::sim {
namespace {

template <typename Handle>
WireHandle unpack(const Handle& handle) {
  static_assert(sizeof(Handle) == sizeof(WireHandle));
  WireHandle wire;
  std::memcpy(&wire, &handle, sizeof(wire));
  const auto& reserved = wire.reserved;
  if (reserved[0] != 0 || reserved[1] != 0 || reserved[2] != 0) wire.kind = 0;  // invalid handle
  return wire;
}

template <typename Handle>
void pack(const WireHandle& wire, Handle& handle) {
  std::memcpy(&handle, &wire, sizeof(wire));
}

}  // namespace

orError_t ipc_name(int device, void* base, size_t base_size, void* ptr, size_t size,
                   orIpcMemHandle_t* handle) {
  return noexcept_boundary([&]() -> orError_t {
    std::lock_guard lock(ipc_mutex());
    OwnIpcRegistry* ipc_registry = nullptr;
    if (const orError_t error = OwnIpcRegistry::get(ipc_registry)) return error;
    Arena& arena = device_at(device).arena;
    WireHandle wire{};
    if (const orError_t error = ipc_registry->name_memory(device, arena, {arena.offset_of(base), base_size},
                                                          {arena.offset_of(ptr), size}, wire)) {
      return error;
    }
    pack(wire, *handle);
    return orSuccess;
  });
}

orError_t ipc_retire(const orIpcMemHandle_t* handle) {
  return noexcept_boundary([&]() -> orError_t {
    std::lock_guard lock(ipc_mutex());
    OwnIpcRegistry* ipc_registry = nullptr;
    if (const orError_t error = OwnIpcRegistry::get(ipc_registry)) return error;
    return ipc_registry->retire_memory(unpack(*handle));
  });
}

orError_t ipc_withdraw(int device, void* base, int force) {
  return noexcept_boundary([&]() -> orError_t {
    std::lock_guard lock(ipc_mutex());
    OwnIpcRegistry* ipc_registry = OwnIpcRegistry::existing();
    if (!ipc_registry) return orSuccess;
    Arena& arena = device_at(device).arena;
    return ipc_registry->withdraw_memory(device, arena.serial(), arena.offset_of(base), force != 0);
  });
}

orError_t ipc_open(const orIpcMemHandle_t* handle, orDriverIpcMemory* memory) {
  return noexcept_boundary([&]() -> orError_t {
    {
      std::lock_guard lock(state().open_mutex);
      const Config& config = state().config;
      if (const orError_t error = reserve_views(config.device_count, config.memory)) return error;
    }
    return open_import(unpack(*handle), *memory);
  });
}

orError_t ipc_close(void* ptr, int* last) {
  return noexcept_boundary([&]() -> orError_t {
    bool was_last = false;
    if (const orError_t error = close_import(ptr, was_last)) return error;
    *last = was_last ? 1 : 0;
    return orSuccess;
  });
}

orError_t ipc_name_event(orDriverEvent* event, orIpcEventHandle_t* handle) {
  return noexcept_boundary([&]() -> orError_t {
    WireHandle wire{};
    if (const orError_t error = reinterpret_cast<Event*>(event)->shared()->name(wire)) return error;
    pack(wire, *handle);
    return orSuccess;
  });
}

orError_t ipc_open_event(const orIpcEventHandle_t* handle, int* device, orDriverEvent** event) {
  return noexcept_boundary([&]() -> orError_t {
    Ref<SharedEvent> shared;
    if (const orError_t error = SharedEvent::open(unpack(*handle), *device, shared)) return error;
    *event = reinterpret_cast<orDriverEvent*>(
        new Event(orEventDisableTiming | orEventInterprocess, std::move(shared)));
    return orSuccess;
  });
}

}  // namespace openreg::sim
