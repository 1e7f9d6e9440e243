// This process's own IPC registry: what it has named for other processes. See the notes in ipc_layout.h.
//
// Thread safety: every member function needs ipc_mutex(). The IPC registry is made at first need and never
// goes.
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

/// Guards this process's IPC registry, the peers that it knows, and what it has opened of theirs. May be
/// taken while an event's or a stream's lock is held; a device's may be taken under it.
std::mutex& ipc_mutex();

/// Which entries of a table are free. An entry that somebody still holds waits until they let go.
class Places {
 public:
  Places(uint32_t limit, uint64_t first_lock) : limit_(limit), first_lock_(first_lock) {}

  /// False if all are in use.
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

class OwnLedger {
 public:
  /// Makes the IPC registry if there is none.
  [[nodiscard]] static orError_t get(OwnLedger*& ipc_registry);
  /// NULL if there is none.
  static OwnLedger* existing();

  /// True if the handle says that it is of this process.
  bool is_own(const WireHandle& handle) const;
  int file() const { return file_; }
  IpcRegistry& shared() { return *shared_; }

  struct Range {
    size_t begin;
    size_t size;
  };
  /// Names `part` of the allocation `whole` of a device.
  [[nodiscard]] orError_t name_memory(int device, Arena& arena, Range whole, Range part, WireHandle& handle);
  /// As an opening by this process: the name need no longer be waited for.
  [[nodiscard]] orError_t receive_memory(const WireHandle& handle);
  [[nodiscard]] orError_t retire_memory(const WireHandle& handle);
  /// Takes back all names of the allocation that begins at `base`; orErrorNotPermitted if one is held.
  [[nodiscard]] orError_t withdraw_memory(int device, uint64_t arena, size_t base, bool force);

  [[nodiscard]] orError_t add_event(int device, uint32_t& index);
  void remove_event(uint32_t index);
  WireHandle event_handle(uint32_t index) const;

 private:
  OwnLedger(int file, uint64_t inode, IpcRegistry* shared);
  [[nodiscard]] orError_t publish_arena(int device, Arena& arena);
  struct Issued {
    uint64_t secret[2];
    std::pair<uint64_t, uint64_t> allocation;  // memory: arena and begin; the key of named_
  };
  WireHandle handle_of(uint32_t kind, uint32_t index, const Issued& issued) const;
  [[nodiscard]] orError_t check_memory(const WireHandle& handle) const;
  void forget_memory(uint32_t index);

  const int file_;
  const uint64_t inode_;
  IpcRegistry* const shared_;
  Places memory_places_{IpcRegistry::kMemoryEntries, 0};
  Places event_places_{IpcRegistry::kEventEntries, IpcRegistry::kEventLocks};
  std::multimap<std::pair<uint64_t, uint64_t>, uint32_t> named_;  // arena and allocation, to their entries
  // By index; see Note [Shared words are not trusted].
  std::unordered_map<uint32_t, Issued> memory_issued_, events_issued_;
};

}  // namespace openreg::sim
