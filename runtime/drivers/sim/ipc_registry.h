// The IPC registry of this process: its exported memory and events. See the notes in ipc_layout.h.
//
// Thread safety: callers of member functions hold ipc_mutex(). The registry is created at first use and is
// never destroyed.
#pragma once

#include "ipc_layout.h"
#include "openreg/error.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace openreg::sim {

class Arena;

/// Guards the IPC registry of this process, the known peers, and the memory and events opened from them. May
/// be taken while the lock of an event or a stream is held; the lock of a device may be taken under it.
std::mutex& ipc_mutex();

/// Allocates entries of a table. A freed entry is reused only after all processes have released it.
class EntrySlots {
 public:
  EntrySlots(uint32_t limit, uint64_t first_lock) : limit_(limit), first_lock_(first_lock) {}

  /// Returns false if all entries are in use.
  [[nodiscard]] bool take(int file, uint32_t& index);
  void give(int file, uint32_t index);
  bool is_held(int file, uint32_t index) const;

 private:
  const uint32_t limit_;
  const uint64_t first_lock_;
  uint32_t used_ = 0;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> held_;
};

class OwnIpcRegistry {
 public:
  /// Creates the registry if necessary.
  [[nodiscard]] static orError_t get(OwnIpcRegistry*& ipc_registry);
  /// Returns NULL if there is no registry.
  static OwnIpcRegistry* existing();

  /// True if the handle refers to this process. The handle may be forged.
  bool is_own(const WireHandle& handle) const;
  int file() const { return file_; }
  IpcRegistry& shared() { return *shared_; }

  struct Range {
    size_t begin;
    size_t size;
  };
  /// Creates a handle of `part` of the allocation `whole`.
  [[nodiscard]] orError_t name_memory(int device, Arena& arena, Range whole, Range part, WireHandle& handle);
  /// Marks the entry as received; for a handle that came back to this process.
  [[nodiscard]] orError_t receive_memory(const WireHandle& handle);
  [[nodiscard]] orError_t retire_memory(const WireHandle& handle);
  /// Invalidates all handles of the allocation at `base`. Returns orErrorNotPermitted if another process
  /// holds one, unless `force` is set.
  [[nodiscard]] orError_t withdraw_memory(int device, uint64_t arena, size_t base, bool force);

  [[nodiscard]] orError_t add_event(int device, uint32_t& index);
  void remove_event(uint32_t index);
  WireHandle event_handle(uint32_t index) const;

 private:
  OwnIpcRegistry(int file, uint64_t inode, IpcRegistry* shared);
  [[nodiscard]] orError_t publish_arena(int device, Arena& arena);
  struct Issued {
    uint64_t secret[2];
    std::pair<uint64_t, uint64_t> allocation;  // for memory: arena and start; the key of named_
  };
  WireHandle handle_of(uint32_t kind, uint32_t index, const Issued& issued) const;
  [[nodiscard]] orError_t check_memory(const WireHandle& handle) const;
  void remove_memory(uint32_t index);

  const int file_;
  const uint64_t inode_;
  IpcRegistry* const shared_;
  EntrySlots memory_slots_{IpcRegistry::kMemoryEntries, 0};
  EntrySlots event_slots_{IpcRegistry::kEventEntries, IpcRegistry::kEventLocks};
  std::multimap<std::pair<uint64_t, uint64_t>, uint32_t> named_;  // (arena, start of allocation) to entries
  // By entry index; see Note [Shared memory is not trusted].
  std::unordered_map<uint32_t, Issued> memory_issued_, events_issued_;
};

}  // namespace openreg::sim
