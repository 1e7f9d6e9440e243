// Handles of memory and events that this process shares, in a file that other processes of the user open.
//
// A handle of CUDA fills all 64 bytes of a handle of the runtime, and does not say whether a process has it
// open. So the handle of the runtime names an entry of the file, and the entry contains that of CUDA. A
// process that has the entry open holds a lock on its byte; the kernel releases it when the process ends.
//
// Another chip: handles that are file descriptors, or names that its kernel driver checks, need no file.
#pragma once

#include "openreg/driver.h"

#include <array>
#include <cstdint>

namespace nv {

constexpr size_t kHandleSize = 64;

/// What a process shares.
struct SharedEntry {
  enum Kind : uint32_t { kMemory = 1, kEvent = 2 };
  uint32_t kind = 0;
  int32_t device = 0;
  uint64_t offset = 0;  // of the shared bytes in their allocation
  uint64_t size = 0;
  uint64_t base_size = 0;
  std::array<unsigned char, kHandleSize> native{};  // the handle of CUDA
};

/// An entry of this process, or one of another process that is open here.
struct OpenEntry {
  int32_t pid = 0;
  uint32_t index = 0;
  uint64_t file = 0;
  friend auto operator<=>(const OpenEntry&, const OpenEntry&) = default;
};

// Thread safety: all functions may be called from any thread.

/// Adds an entry; `bytes` becomes its handle.
orError_t create_handle(const SharedEntry& entry, unsigned char (&bytes)[kHandleSize], OpenEntry& created);
/// The number of the entry of a handle that this process created, or 0.
uint32_t own_handle(const unsigned char (&bytes)[kHandleSize]);
/// Whether a process has opened the entry, and whether one has it open.
bool was_opened(uint32_t index);
bool is_open(uint32_t index);
/// Removes an entry of this process: its handle is invalid. Returns false if a process has it open, unless
/// `force`.
bool remove_handle(uint32_t index, bool force);

/// Copies the entry of a handle of another process, and keeps it open until close_handle, once for each call.
/// A handle of this process counts as opened and returns orErrorNotPermitted.
orError_t open_handle(const unsigned char (&bytes)[kHandleSize], uint32_t kind, SharedEntry& entry,
                      OpenEntry& open);
void close_handle(const OpenEntry& open);

/// A mark on an entry that other processes see, until it is cleared or this process ends.
void set_mark(const OpenEntry& entry, bool marked);
bool is_marked_elsewhere(const OpenEntry& entry);

}  // namespace nv
