#include "memory_check/region.h"

#include "memory_check/regions.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace openreg::memory_check {
namespace {

constexpr size_t kAlignment = 64;
constexpr unsigned char kPattern = 0xca;
constexpr unsigned char kPoison = 0xff;
// Pages of the device use memory of the host once they are written, so large blocks are filled in part.
constexpr size_t kMostPoison = size_t{64} << 20;

size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

unsigned char* at(uintptr_t address) {
  return reinterpret_cast<unsigned char*>(address);  // NOLINT(performance-no-int-to-ptr)
}

uintptr_t first_other(uintptr_t begin, uintptr_t end) {
  const unsigned char* found =
      std::find_if(at(begin), at(end), [](unsigned char byte) { return byte != kPattern; });
  return found == at(end) ? 0 : reinterpret_cast<uintptr_t>(found);
}

}  // namespace

size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

void set_access(uintptr_t begin, uintptr_t end, bool accessible) {
  if (!pages_are_protected() && !accessible) {
    return;
  }
  if (mprotect(at(begin), end - begin, accessible ? PROT_READ | PROT_WRITE : PROT_NONE) == 0) {
    return;
  }
  stop_protecting_pages(errno);
  mprotect(at(begin), end - begin, PROT_READ | PROT_WRITE);
}

size_t Region::length_for(size_t size) {
  return round_up(size, page_size()) + 2 * page_size();
}

void Region::set(char* base, size_t length, size_t size, ptrdiff_t view_offset, bool unused) {
  const std::lock_guard lock(mutex_);
  base_ = base;
  length_ = length;
  view_offset_ = view_offset;
  page_ = page_size();
  begin_ = round_up(reinterpret_cast<uintptr_t>(base) + static_cast<uintptr_t>(view_offset), page_);
  end_ = begin_ + length_for(size);
  use_ = unused ? Use::kUnused : Use::kFreed;
  ++uses_;
  set_access(begin_, data_begin(), false);
  set_access(data_end(), end_, false);
}

void Region::release() {
  const std::lock_guard lock(mutex_);
  ++uses_;
  use_ = Use::kNone;
  set_access(begin_, end_, true);
}

void* Region::allocate(size_t bytes, CallSite site) {
  const std::lock_guard lock(mutex_);
  ++uses_;
  if (use_ == Use::kSealed) {
    set_access(data_begin(), data_end(), true);
  }
  data_ = data_end() - round_up(bytes, kAlignment);
  bytes_ = bytes;
  if (use_ == Use::kUnused) {
    poison();
  }
  // Otherwise kernels that were launched before the free may still write to the memory around the data.
  has_pattern_ = use_ == Use::kUnused || use_ == Use::kSealed;
  if (has_pattern_) {
    set_pattern();
  }
  use_ = Use::kLive;
  allocated_at_ = site;
  freed_at_ = 0;
  return base_ + (data_ - static_cast<uintptr_t>(view_offset_) - reinterpret_cast<uintptr_t>(base_));
}

void Region::restore(void* ptr, size_t bytes) {
  const std::lock_guard lock(mutex_);
  ++uses_;
  data_ = reinterpret_cast<uintptr_t>(ptr) + static_cast<uintptr_t>(view_offset_);
  bytes_ = bytes;
  has_pattern_ = false;
  use_ = Use::kLive;
  freed_at_ = 0;
}

void Region::set_freed_at(CallSite site) {
  const std::lock_guard lock(mutex_);
  freed_at_ = site;
}

uint64_t Region::free() {
  const std::lock_guard lock(mutex_);
  use_ = Use::kFreed;
  return uses_;
}

uintptr_t Region::seal(uint64_t use, BlockState* found) {
  const std::lock_guard lock(mutex_);
  if (use != uses_ || use_ != Use::kFreed) {
    return 0;
  }
  const uintptr_t changed = has_pattern_ ? changed_byte() : 0;
  *found = state();
  poison();
  set_access(data_begin(), data_end(), false);
  use_ = Use::kSealed;
  return changed;
}

uintptr_t Region::find_changed(BlockState* found) {
  const std::lock_guard lock(mutex_);
  if (use_ != Use::kLive || !has_pattern_) {
    return 0;
  }
  const uintptr_t changed = changed_byte();
  if (changed != 0) {
    *found = state();
    set_pattern();
  }
  return changed;
}

bool Region::open(uintptr_t address, BlockState* found, uint64_t* use) {
  const std::lock_guard lock(mutex_);
  if (use_ == Use::kNone || (!is_guard(address) && use_ != Use::kSealed)) {
    return false;
  }
  *found = state();
  *use = uses_;
  if (address < data_begin()) {
    set_access(begin_, data_begin(), true);
  } else if (address >= data_end()) {
    set_access(data_end(), end_, true);
  } else {
    set_access(data_begin(), data_end(), true);
  }
  return true;
}

void Region::close(uintptr_t address, uint64_t use) {
  const std::lock_guard lock(mutex_);
  if (use_ == Use::kNone) {
    return;
  }
  if (address < data_begin()) {
    set_access(begin_, data_begin(), false);
  } else if (address >= data_end()) {
    set_access(data_end(), end_, false);
  } else if (use == uses_ && use_ == Use::kSealed) {
    set_access(data_begin(), data_end(), true);  // another kernel may have closed it
    poison();
    set_access(data_begin(), data_end(), false);
  }
}

BlockState Region::state() const {
  return {data_, bytes_, use_ == Use::kFreed || use_ == Use::kSealed, allocated_at_, freed_at_};
}

void Region::poison() const {
  const size_t size = data_end() - data_begin();
  std::memset(at(data_end() - std::min(size, kMostPoison)), kPoison, std::min(size, kMostPoison));
}

void Region::set_pattern() const {
  const uintptr_t before = std::max(data_begin(), data_ - std::min(data_, page_));
  std::memset(at(before), kPattern, data_ - before);
  std::memset(at(data_ + bytes_), kPattern, data_end() - data_ - bytes_);
}

uintptr_t Region::changed_byte() const {
  const uintptr_t after = first_other(data_ + bytes_, data_end());
  return after != 0 ? after : first_other(std::max(data_begin(), data_ - std::min(data_, page_)), data_);
}

}  // namespace openreg::memory_check
