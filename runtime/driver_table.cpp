#include "driver_table.h"

#include "error.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace openreg {
namespace {

struct Entry {
  const char* name;
  size_t offset;
};

#define OR_ENTRY(name) {#name, offsetof(orDriver, name)}

constexpr Entry kRequired[] = {
    OR_ENTRY(init),
    OR_ENTRY(device_count),
    OR_ENTRY(device_properties),
    OR_ENTRY(device_open),
    OR_ENTRY(device_close),
    OR_ENTRY(memory_alloc),
    OR_ENTRY(memory_free),
    OR_ENTRY(memory_info),
    OR_ENTRY(stream_create),
    OR_ENTRY(stream_destroy),
    OR_ENTRY(stream_query),
    OR_ENTRY(stream_synchronize),
    OR_ENTRY(stream_wait_event),
    OR_ENTRY(stream_launch),
    OR_ENTRY(stream_copy),
    OR_ENTRY(stream_fill),
    OR_ENTRY(device_synchronize),
    OR_ENTRY(event_create),
    OR_ENTRY(event_destroy),
    OR_ENTRY(event_record),
    OR_ENTRY(event_query),
    OR_ENTRY(event_synchronize),
    OR_ENTRY(event_elapsed),
};

// Entries of which a driver has all or none.
constexpr Entry kPinnedMemory[] = {OR_ENTRY(host_alloc), OR_ENTRY(host_free)};
constexpr Entry kGraphs[] = {OR_ENTRY(stream_begin_capture),
                             OR_ENTRY(stream_end_capture),
                             OR_ENTRY(stream_capture_status),
                             OR_ENTRY(stream_check_uncaptured),
                             OR_ENTRY(device_check_uncaptured),
                             OR_ENTRY(graph_launch),
                             OR_ENTRY(graph_node),
                             OR_ENTRY(graph_destroy)};
constexpr Entry kIpc[] = {OR_ENTRY(ipc_name),      OR_ENTRY(ipc_retire), OR_ENTRY(ipc_withdraw),
                          OR_ENTRY(ipc_open),      OR_ENTRY(ipc_close),  OR_ENTRY(ipc_name_event),
                          OR_ENTRY(ipc_open_event)};
constexpr Entry kDeferred[] = {OR_ENTRY(kernel_defer), OR_ENTRY(kernel_finish)};
constexpr Entry kDeviceCode[] = {OR_ENTRY(module_load), OR_ENTRY(module_unload), OR_ENTRY(module_function),
                                 OR_ENTRY(stream_launch_function)};
constexpr std::span<const Entry> kGroups[] = {kPinnedMemory, kGraphs, kIpc, kDeferred, kDeviceCode};

// Entries that a declared capability requires. One of each group stands for it.
struct Capability {
  const char* name;
  uint64_t bit;
  Entry entry;
};
constexpr Capability kCapabilities[] = {
    {"OR_CAP_HOST_EXECUTABLE", OR_CAP_HOST_EXECUTABLE, OR_ENTRY(kernel_view_offset)},
    {"OR_CAP_IPC", OR_CAP_IPC, OR_ENTRY(ipc_name)},
    {"OR_CAP_DEVICE_CODE", OR_CAP_DEVICE_CODE, OR_ENTRY(module_load)},
};

#undef OR_ENTRY

constexpr size_t kFirstVersionSize = offsetof(orDriver, device_drain);  // of OR_DRIVER_VERSION 1
constexpr size_t kLargestSize = OR_DRIVER_LARGEST;  // a larger value is an uninitialized struct_size

bool present(const orDriver& table, const Entry& entry) {
  void* function;
  std::memcpy(&function, reinterpret_cast<const char*>(&table) + entry.offset, sizeof(function));
  return function != nullptr;
}

orError_t check_version(const orDriver& given, const char* who) {
  if (given.version < OR_DRIVER_OLDEST) {
    return fail(
        orErrorDriver,
        "%s has version %u of the driver interface; this runtime supports %d to %d and later: update the "
        "driver",
        who, given.version, OR_DRIVER_OLDEST, OR_DRIVER_VERSION);
  }
  const size_t size = given.struct_size;
  if (size < kFirstVersionSize || size > kLargestSize) {
    return fail(
        orErrorDriver,
        "%s has a table of %zu bytes; the supported range is %zu to %zu: set struct_size to sizeof(orDriver)",
        who, size, kFirstVersionSize, kLargestSize);
  }
  if (given.version <= OR_DRIVER_VERSION && size > sizeof(orDriver)) {
    return fail(orErrorDriver,
                "%s has a table of %zu bytes with version %u, which has at most %zu: set version to "
                "OR_DRIVER_VERSION",
                who, size, given.version, sizeof(orDriver));
  }
  return orSuccess;
}

orError_t check_entries(const orDriver& table, const char* who) {
  for (const Entry& entry : kRequired) {
    if (!present(table, entry)) {
      return fail(orErrorDriver, "%s has no '%s', which is required: implement it", who, entry.name);
    }
  }
  for (const std::span<const Entry> group : kGroups) {
    const auto is_present = [&](const Entry& entry) { return present(table, entry); };
    const auto missing = std::ranges::find_if_not(group, is_present);
    const auto found = std::ranges::find_if(group, is_present);
    if (missing != group.end() && found != group.end()) {
      return fail(orErrorDriver, "%s has '%s' but not '%s': implement all entries of this group, or none",
                  who, found->name, missing->name);
    }
  }
  for (const Capability& capability : kCapabilities) {
    if ((table.capabilities & capability.bit) && !present(table, capability.entry)) {
      return fail(orErrorDriver, "%s declares %s but has no '%s': implement it, or clear the bit", who,
                  capability.name, capability.entry.name);
    }
  }
  return orSuccess;
}

}  // namespace

orError_t negotiate(const orDriver& given, const char* who, orDriver& table) {
  OR_RETURN_IF_ERROR(check_version(given, who));
  table = {};
  // Only whole fields: the table of an older driver ends between two of them.
  const size_t known = std::min<size_t>(given.struct_size, sizeof(orDriver));
  std::memcpy(&table, &given, known / sizeof(void*) * sizeof(void*));
  if (table.oldest_runtime > OR_DRIVER_VERSION) {
    return fail(
        orErrorDriver,
        "%s requires a runtime with version %u of the driver interface; this runtime has version %d: update "
        "the runtime, or install an older driver",
        who, table.oldest_runtime, OR_DRIVER_VERSION);
  }
  if (!table.name || !*table.name) return fail(orErrorDriver, "%s has no name: set orDriver.name", who);
  return check_entries(table, who);
}

}  // namespace openreg
