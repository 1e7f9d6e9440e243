// The layout of memory that processes share: the IPC registry, a memory file (memfd) of each exporting
// process, and the handles, which refer to an entry of a registry.
//
// Note [Handle lookup]
// A handle contains a process ID, the file descriptor of the IPC registry in that process, and an entry
// index. The opening process opens the registry through /proc/<pid>/fd. The Linux kernel permits that for the
// same user (and for processes that may trace any process). There are no names in a file system and no socket
// addresses, which could be left behind or reused by another process. The exporting process needs no server
// thread. Entry and handle contain a secret of 128 bits, so a forged or stale handle is detected. Registries
// and arenas are sealed against shrinking, so a mapping never faults, also with a malicious peer.
//
// Note [File locks]
// Each entry has a byte offset in the IPC registry file, which is used only for locking. A process that holds
// an entry locks its byte with an open file description lock (F_OFD_SETLK). The Linux kernel releases the
// lock when the process ends, also if it is killed. The owner tests for a conflicting lock to find out
// whether a process holds the entry. Every process also locks a byte for its process ID, which shows that it
// is alive.
//
// Note [Retiring]
// An entry is kSent until a process opens it; then it is kReceived. To retire a received entry, the owner
// sets it to kFree and then tests the lock; if the entry is locked, the owner restores the state. An opening
// process locks first and then reads the state. So at least one of the two detects the other.
//
// Note [Shared memory is not trusted]
// Every process that opens an IPC registry can write all of it, also a malicious process. So no word is read
// twice: read_once copies an entry into a private struct, which is then checked and used. The owner keeps a
// private copy of the entries that it created and never reads keys or secrets from the IPC registry.
#pragma once

#include "config.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace openreg::sim {

enum class EntryState : uint32_t { kFree, kSent, kReceived };

struct Entry {
  std::atomic<uint64_t> secret[2];
  std::atomic<EntryState> state;
  int32_t device;
};

/// A piece of an allocation; offsets are relative to the arena.
struct MemoryEntry : Entry {
  uint64_t arena;  // as IpcRegistry::Arena::serial; a reset of the device changes it
  uint64_t base, base_size;
  uint64_t begin, size;
};

/// A private copy of a MemoryEntry.
struct MemoryPiece {
  int32_t device;
  uint64_t arena;
  uint64_t base, base_size;
  uint64_t begin, size;
};

/// Records of an event are numbered from 1. The latest number and its process are one word, so that a waiter
/// reads both atomically. `done` and `process` are rings, indexed by number modulo kRing.
struct EventEntry : Entry {
  static constexpr uint64_t kRing = 16;
  static constexpr int kProcessBits = 24;

  std::atomic<uint64_t> latest;  // number << kProcessBits | process; 0: never recorded
  std::atomic<uint64_t> done[kRing];
  std::atomic<int32_t> process[kRing];  // process of the record
};

struct IpcRegistry {
  static constexpr uint64_t kMagic = 0x31'72'67'64'6c'67'72'6fu;  // "orgldgr1"
  static constexpr uint32_t kMemoryEntries = 1u << 18;
  static constexpr uint32_t kEventEntries = 1u << 16;
  static constexpr uint64_t kEventLocks = uint64_t{1} << 32;
  static constexpr uint64_t kProcessLocks = uint64_t{1} << 40;

  struct Arena {
    std::atomic<uint64_t> serial;  // 0: this device shares no memory
    int32_t file;
    uint64_t inode;
    uint64_t size;
  };

  uint64_t magic;
  int32_t process;                 // the owner; checked because /proc/<tid>/fd leads to the same files
  std::atomic<uint32_t> doorbell;  // incremented when a record is done
  std::atomic<uint32_t> waiting;   // number of possible sleepers on the doorbell; too large is harmless
  Arena arenas[kMaxDevices];
  EventEntry events[kEventEntries];
  MemoryEntry memory[kMemoryEntries];
};

/// Reads the word exactly once.
template <typename Word>
Word read_once(const Word& shared) {
  return __atomic_load_n(&shared, __ATOMIC_RELAXED);
}

inline MemoryPiece read_once(const MemoryEntry& entry) {
  return {read_once(entry.device),    read_once(entry.arena), read_once(entry.base),
          read_once(entry.base_size), read_once(entry.begin), read_once(entry.size)};
}

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<EntryState>::is_always_lock_free);

/// The contents of orIpcMemHandle_t and orIpcEventHandle_t.
struct WireHandle {
  static constexpr uint32_t kMemory = 0x314d524f;  // "ORM1"
  static constexpr uint32_t kEvent = 0x3145524f;   // "ORE1"

  uint32_t kind;
  int32_t process;
  int32_t file;  // descriptor of the IPC registry in that process
  uint32_t index;
  uint64_t inode;  // of the IPC registry
  uint64_t secret[2];
  uint64_t reserved[3];
};
static_assert(sizeof(WireHandle) == 64);

}  // namespace openreg::sim
