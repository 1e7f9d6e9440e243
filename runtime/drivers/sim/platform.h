// The operating system functions that the simulated device needs beyond the standard library. To port it,
// implement this header.
//
// Functions that can fail return false and set errno.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace openreg::sim::platform {

/// Reserves an address range without memory; accesses fault.
[[nodiscard]] bool reserve(size_t size, void** base);

/// The name of all memory files of the simulated device; /proc/<pid>/maps shows it.
inline constexpr const char* kMemoryName = "openreg";
/// Creates a memory file that can be mapped; -1 on failure. It is zero-initialized, uses no space until it is
/// written, and its size is fixed.
[[nodiscard]] int create_memory(const char* name, size_t size);
void close_memory(int memory);

/// Maps the memory from `offset`, readable and writable, at an address inside a reserved range. Forked
/// children do not inherit the mapping.
[[nodiscard]] bool map_memory(int memory, size_t offset, void* address, size_t size);
/// Returns the range to its reserved state.
[[nodiscard]] bool unmap_memory(void* address, size_t size);

/// Releases the pages of a page-aligned range, which then reads as zeros.
void discard(int memory, size_t offset, size_t size);

size_t page_size();

/// Allocates host memory in whole pages; NULL on failure.
void* allocate_pages(size_t size);
void free_pages(void* pages, size_t size);

/// Blocks signals on the calling thread, so that threads of the program handle them.
void block_signals();

/// Sleeps of the calling thread end when they should, not when it suits the system.
void sleep_precisely();

int hardware_threads();

// ---- Interprocess sharing: see Note [Handle lookup] and Note [File locks] in ipc_layout.h.

int process_id();
[[nodiscard]] bool random_bytes(void* bytes, size_t size);

/// The inode, which identifies a memory file, and its size.
[[nodiscard]] bool identify(int memory, uint64_t* inode, uint64_t* size);

enum class Opened { kYes, kNoProcess, kNotAllowed, kNotOurs, kFailed };
/// Opens the memory file with the descriptor `memory` of another process, if create_memory made it with this
/// name. The result is a new open file description, so its locks belong to this process.
[[nodiscard]] Opened open_memory_of(int process, int memory, const char* name, int* opened);

/// Maps a whole memory file at any address, readable and writable; NULL on failure. Forked children do not
/// inherit the mapping.
[[nodiscard]] void* map_anywhere(int memory, size_t size);
void unmap_anywhere(void* address, size_t size);

/// Non-blocking locks on bytes of a memory file. `shared` locks are compatible with each other. is_locked
/// detects locks of other open file descriptions. Closing the file releases its locks.
[[nodiscard]] bool lock_byte(int memory, uint64_t byte, bool shared);
void unlock_byte(int memory, uint64_t byte);
bool is_locked(int memory, uint64_t byte);

/// Sleeps until one of the words differs from `was`, or until the timeout. The words may be in memory that is
/// shared between processes. May return early.
struct WatchedWord {
  const std::atomic<uint32_t>* word;
  uint32_t was;
};
constexpr int kMaxWatched = 120;
void sleep_on(const WatchedWord* words, int count, int64_t nanoseconds);
void wake_all(const std::atomic<uint32_t>* word);

/// As pthread_atfork.
void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)());

}  // namespace openreg::sim::platform
