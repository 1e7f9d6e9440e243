// What the simulated device asks of the operating system beyond the standard library. Another system is
// another implementation of this header.
//
// Functions that can fail return false and leave errno.
#pragma once

#include <cstddef>

namespace openreg::sim::platform {

/// An address range that faults when touched, and costs nothing.
[[nodiscard]] bool reserve(size_t size, void** base);

/// Memory that can be mapped; -1 on failure. It begins as zeros and takes no space until written.
[[nodiscard]] int create_memory(const char* name, size_t size);
void close_memory(int memory);

/// Maps the memory, readable and writable, at an address inside a reserved range. A forked child does not
/// get the mapping.
[[nodiscard]] bool map_memory(int memory, void* address, size_t size);
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

}  // namespace openreg::sim::platform
