// What the simulated device asks of the operating system beyond the standard library. Another system is
// another implementation of this header.
//
// Functions that can fail return false and leave errno.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace openreg::sim::platform {

/// An address range that faults when touched, and costs nothing.
[[nodiscard]] bool reserve(size_t size, void** base);

/// Memory that can be mapped; -1 on failure. It begins as zeros, takes no space until written, and keeps its
/// size for ever.
[[nodiscard]] int create_memory(const char* name, size_t size);
void close_memory(int memory);

/// Maps the memory from `offset`, readable and writable, at an address inside a reserved range. A forked
/// child does not get the mapping.
[[nodiscard]] bool map_memory(int memory, size_t offset, void* address, size_t size);
/// The range is as it was when reserved.
[[nodiscard]] bool unmap_memory(void* address, size_t size);

/// Gives the pages of a range back; it reads as zeros afterwards. Page-aligned.
void discard(int memory, size_t offset, size_t size);

size_t page_size();

/// Host memory in whole pages; NULL if there is none.
void* allocate_pages(size_t size);
void free_pages(void* pages, size_t size);

/// Signals are for the program's own threads.
void block_signals();

int hardware_threads();

// ---- Other processes: see Note [Finding each other] and Note [Holds are locks] in ipc_layout.h.

int process_id();
[[nodiscard]] bool random_bytes(void* bytes, size_t size);

/// Tells one memory from another.
[[nodiscard]] bool identify(int memory, uint64_t* inode, uint64_t* size);

enum class Opened { kYes, kNoProcess, kNotAllowed, kNotOurs, kFailed };
/// Opens the memory that another process has under the number `memory`, if it was made by create_memory with
/// that name. An opening of its own: its locks are this process's.
[[nodiscard]] Opened open_memory_of(int process, int memory, const char* name, int* opened);

/// Maps a whole memory somewhere, readable and writable; NULL on failure. A forked child does not get it.
[[nodiscard]] void* map_anywhere(int memory, size_t size);
void unmap_anywhere(void* address, size_t size);

/// Locks on the bytes of a memory. They exclude nobody: `shared` ones go with each other, and all are asked
/// for with is_locked alone, which sees those of other openings. They end with the opening.
[[nodiscard]] bool lock_byte(int memory, uint64_t byte, bool shared);
void unlock_byte(int memory, uint64_t byte);
bool is_locked(int memory, uint64_t byte);

/// Sleeps until one of the words, which other processes may have too, is no longer what it was, or the time
/// is over. May return early.
struct WatchedWord {
  const std::atomic<uint32_t>* word;
  uint32_t was;
};
constexpr int kMostWatched = 120;
void sleep_on(const WatchedWord* words, int count, int64_t nanoseconds);
void wake_all(const std::atomic<uint32_t>* word);

/// Calls `before` in a thread that is about to fork, and afterwards one of the others.
void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)());

}  // namespace openreg::sim::platform
