// The pages of one block, in the kernel view.
//
// Note [Layout of a checked block]
//
//     | guard page | ... before ... | data of the tensor | after | guard page |
//                  ^ first page                                  ^ last page
//
// The data ends at the end of a page, aligned down to 64 bytes. So an access behind the end is an access to
// the guard page, except for up to 63 bytes. These, and the bytes before the data, have a pattern that is
// checked after kernels and at the free: a kernel that writes there changes it. Guard pages are inaccessible.
// A freed block is filled with 0xff, which is NaN in all floating-point types, and its pages are
// inaccessible until the block is used again.
//
// Thread safety: all functions may be called from any thread. No other lock than that of the list of regions
// is taken under the lock of a region. The fault handler takes it, so nothing under it accesses inaccessible
// pages. Regions are never destroyed, because queued kernels refer to them.
#pragma once

#include "common/call_site.h"

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace openreg::memory_check {

/// The block of a region at the time of a finding.
struct BlockState {
  uintptr_t data = 0;  // in the kernel view
  size_t bytes = 0;
  bool freed = false;
  CallSite allocated_at = 0;
  CallSite freed_at = 0;
};

class Region {
 public:
  /// The bytes of the runtime that a block of `size` bytes needs.
  static size_t length_for(size_t size);

  /// Takes memory of the runtime: `length` bytes at the device address `base`. `unused`: no kernel accesses
  /// it.
  void set(char* base, size_t length, size_t size, ptrdiff_t view_offset, bool unused);
  /// Makes all pages accessible, before the memory returns to the runtime.
  void release();

  void* base() const { return base_; }
  size_t length() const { return length_; }
  /// The pages, with the guard pages, in the kernel view.
  uintptr_t begin() const { return begin_; }
  uintptr_t end() const { return end_; }

  /// A new block in this region. Returns its device address.
  void* allocate(size_t bytes, CallSite site);
  /// The block is again that of an earlier use: see Note [Checkpoints] in memory/pool/pool.h.
  void restore(void* ptr, size_t bytes);
  /// The line that frees the block.
  void set_freed_at(CallSite site);
  /// No stream but that of the block uses it any more. Returns the number of this use for seal().
  uint64_t free();
  /// Makes the pages of a freed block inaccessible, after the work of its stream. No effect if the region was
  /// reused. Returns the address of a changed byte around the data; 0 if there is none.
  uintptr_t seal(uint64_t use, BlockState* state);

  /// The address of a changed byte around the data of a block in use, which is repaired; 0 if there is none.
  uintptr_t find_changed(BlockState* state);

  /// For the fault handler: makes the page accessible. Returns false if it is accessible already.
  bool open(uintptr_t address, BlockState* state, uint64_t* use);
  /// After the kernel: makes the pages inaccessible again, if the region is in the same use.
  void close(uintptr_t address, uint64_t use);

 private:
  enum class Use { kNone, kUnused, kLive, kFreed, kSealed };

  uintptr_t data_end() const { return end_ - page_; }
  uintptr_t data_begin() const { return begin_ + page_; }
  BlockState state() const;
  bool is_guard(uintptr_t address) const { return address < data_begin() || address >= data_end(); }
  void poison() const;
  void set_pattern() const;
  uintptr_t changed_byte() const;

  std::mutex mutex_;  // guards the rest; set() and release() are not called concurrently with the accessors
  char* base_ = nullptr;
  size_t length_ = 0;
  ptrdiff_t view_offset_ = 0;
  uintptr_t begin_ = 0;
  uintptr_t end_ = 0;
  size_t page_ = 0;
  Use use_ = Use::kNone;
  uint64_t uses_ = 0;
  bool has_pattern_ = false;
  uintptr_t data_ = 0;
  size_t bytes_ = 0;
  CallSite allocated_at_ = 0;
  CallSite freed_at_ = 0;
};

/// Makes pages accessible or not. If the system has too many mappings (vm.max_map_count), says so once; from
/// then on, all pages are accessible, and only patterns are checked.
void set_access(uintptr_t begin, uintptr_t end, bool accessible);

size_t page_size();

}  // namespace openreg::memory_check
