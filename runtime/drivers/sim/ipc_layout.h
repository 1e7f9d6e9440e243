// What processes that share memory see of each other: the IPC registry, a file in memory that each process
// which shares something has, and the handles, which name an entry of one.
//
// Note [Finding each other]
// A handle has the number of a process, the number that the IPC registry's file has there, and a place in it;
// who opens it goes through /proc/<pid>/fd. There the kernel lets in the same user (and who may trace any
// process anyway) and nobody else. Nothing has a name in a file system or a socket's address that could be
// left behind or be taken by another, and the process that shares needs no thread that answers. The entry has
// a secret of 128 bits, and so has the handle: one that is made up, or is of an entry that has gone, is
// recognized. Ledgers and arenas are sealed against shrinking, so that a mapping never faults, whoever the
// peer is.
//
// Note [Holds are locks]
// Each entry has a byte of the IPC registry, which is never written: who holds the entry has that byte
// locked, with a lock of its own opening of the file. The kernel ends such locks when a process does, killed
// or not, so nothing is left behind; and the owner finds out whether anybody holds an entry by asking for a
// conflict. Every process also locks a byte for its own number, by which others see that it lives.
//
// Note [Retiring]
// An entry that is sent is waited for; once somebody has opened it, it is received. The owner takes back a
// received entry by marking it free, and then looks at the lock; if there is one, it takes the mark back.
// Who opens locks first and then looks at the mark. So the two cannot miss each other.
//
// Note [Shared words are not trusted]
// Every process that opens an IPC registry can write all of it, and so can a process that means harm. Nobody
// checks a word there and then reads it again: read_once copies an entry into the private struct that is
// checked and used. The owner keeps its own copy of what it issued and never learns a key or a secret from
// the IPC registry.
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

/// A piece of an allocation; offsets are the arena's.
struct MemoryEntry : Entry {
  uint64_t arena;  // which of the device's arenas, should it have been reset: as IpcRegistry::Arena::serial
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

/// Records of an event have numbers, from 1. The latest and its process are one word: what a waiter reads is
/// one moment. The last few that are done stand in a ring, each number at its place.
struct EventEntry : Entry {
  static constexpr uint64_t kRing = 16;
  static constexpr int kProcessBits = 24;

  std::atomic<uint64_t> latest;  // number << kProcessBits | process; 0: never recorded
  std::atomic<uint64_t> done[kRing];
  std::atomic<int32_t> process[kRing];  // that made the record
};

struct IpcRegistry {
  static constexpr uint64_t kMagic = 0x31'72'67'64'6c'67'72'6fu;  // "orgldgr1"
  static constexpr uint32_t kMemoryEntries = 1u << 18;
  static constexpr uint32_t kEventEntries = 1u << 16;
  static constexpr uint64_t kEventLocks = uint64_t{1} << 32;
  static constexpr uint64_t kProcessLocks = uint64_t{1} << 40;

  struct Arena {
    std::atomic<uint64_t> serial;  // 0: nothing of this device is shared
    int32_t file;
    uint64_t inode;
    uint64_t size;
  };

  uint64_t magic;
  int32_t process;                 // whose it is: a thread's number leads to the same files
  std::atomic<uint32_t> doorbell;  // goes up whenever a record is done
  std::atomic<uint32_t> waiting;   // how many may sleep on the doorbell; too many is harmless
  Arena arenas[kMaxDevices];
  EventEntry events[kEventEntries];
  MemoryEntry memory[kMemoryEntries];
};

/// The word as it is now; the compiler does not read it again.
template <typename Word>
Word read_once(const Word& shared) {
  return __atomic_load_n(&shared, __ATOMIC_RELAXED);
}

inline MemoryPiece read_once(const MemoryEntry& entry) {
  return {read_once(entry.device),    read_once(entry.arena), read_once(entry.base),
          read_once(entry.base_size), read_once(entry.begin), read_once(entry.size)};
}

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<EntryState>::is_always_lock_free);

/// The inside of orIpcMemHandle_t and orIpcEventHandle_t.
struct WireHandle {
  static constexpr uint32_t kMemory = 0x314d524f;  // "ORM1"
  static constexpr uint32_t kEvent = 0x3145524f;   // "ORE1"

  uint32_t kind;
  int32_t process;
  int32_t file;  // the IPC registry's number in that process
  uint32_t index;
  uint64_t inode;  // of the IPC registry
  uint64_t secret[2];
  uint64_t reserved[3];
};
static_assert(sizeof(WireHandle) == 64);

}  // namespace openreg::sim
