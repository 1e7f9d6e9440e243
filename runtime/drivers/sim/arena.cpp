#include "arena.h"

#include "error.h"
#include "platform.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace openreg::sim {
namespace {

// Alignment of the views, for huge pages.
constexpr size_t kViewAlignment = size_t{2} << 20;
// For smaller blocks, keeping the pages is cheaper than faulting them in again.
constexpr size_t kSmallestDiscard = size_t{1} << 20;

// The size of a view, relative to the memory of the device; see Note [Address space].
constexpr size_t kAddressFactor = 4;

// Address space is free, and devices of another process may be larger than those of this process.
constexpr size_t kSmallestWindow = size_t{16} << 30;

char* first_device_view = nullptr;
size_t view_stride = 0;
char* window = nullptr;
size_t window_size = 0;
std::atomic<uint64_t> arenas_opened{0};
std::atomic<ptrdiff_t> offset_between_views{0};

size_t round_up(size_t size, size_t to) {
  return (size + to - 1) / to * to;
}

}  // namespace

orError_t reserve_views(int device_count, size_t memory) {
  if (first_device_view) return orSuccess;
  size_t views = 0;
  void* base = nullptr;
  for (const size_t factor : {kAddressFactor, size_t{1}}) {  // the address space may be limited
    view_stride = round_up(memory * factor, kViewAlignment);
    window_size = std::max(view_stride * static_cast<size_t>(device_count), kSmallestWindow);
    views = view_stride * static_cast<size_t>(device_count) + window_size;
    if (platform::reserve(2 * views + kViewAlignment, &base)) break;
    base = nullptr;
  }
  if (!base) {
    return fail(
        orErrorSystem,
        "cannot reserve %zu bytes of address space for %d devices of %zu bytes: %s; reduce OPENREG_MEMORY or "
        "OPENREG_DEVICE_COUNT",
        2 * views, device_count, memory, std::strerror(errno));
  }
  first_device_view = reinterpret_cast<char*>(round_up(reinterpret_cast<size_t>(base), kViewAlignment));
  window = first_device_view + (views - window_size);
  offset_between_views.store(static_cast<ptrdiff_t>(views), std::memory_order_release);
  return orSuccess;
}

void import_window(char** begin, size_t* size) {
  *begin = window;
  *size = window_size;
}

ptrdiff_t view_offset() {
  return offset_between_views.load(std::memory_order_acquire);
}

orError_t Arena::open(int device, size_t memory) {
  device_ = device;
  memory_ = memory;
  addresses_ = view_stride;
  device_view_ = first_device_view + view_stride * static_cast<size_t>(device);
  auto blocks = std::make_unique<Blocks>(addresses_);
  backing_ = platform::create_memory(platform::kMemoryName, addresses_);
  if (backing_ < 0) {  // the size of files may be limited
    addresses_ = memory;
    blocks = std::make_unique<Blocks>(addresses_);
    backing_ = platform::create_memory(platform::kMemoryName, addresses_);
  }
  if (backing_ < 0) {
    return fail(orErrorSystem, "cannot create %zu bytes of memory for device %d: %s", memory, device,
                std::strerror(errno));
  }
  serial_ = arenas_opened.fetch_add(1) + 1;
  if (!platform::map_memory(backing_, 0, device_view_ + view_offset(), addresses_)) {
    const int reason = errno;
    static_cast<void>(close());
    return fail(orErrorSystem, "cannot map %zu bytes of memory of device %d: %s", memory, device,
                std::strerror(reason));
  }
  std::lock_guard lock(mutex_);
  blocks_ = std::move(blocks);
  return orSuccess;
}

orError_t Arena::close() {
  {
    std::lock_guard lock(mutex_);
    blocks_.reset();
  }
  const bool unmapped = platform::unmap_memory(device_view_ + view_offset(), addresses_);
  const int reason = errno;
  platform::close_memory(backing_);
  backing_ = -1;
  if (unmapped) return orSuccess;
  return fail(orErrorSystem, "cannot unmap the memory of device %d: %s", device_, std::strerror(reason));
}

orError_t Arena::allocate(size_t size, void** pointer) {
  std::lock_guard lock(mutex_);
  const auto offset = size <= free_memory() ? blocks_->take(size) : std::nullopt;
  if (!offset) {
    return fail(orErrorOutOfMemory,
                "out of memory on device %d: tried to allocate %zu bytes; %zu of %zu bytes are free; free "
                "memory or increase OPENREG_MEMORY",
                device_, size, free_memory(), memory_);
  }
  *pointer = device_view_ + *offset;
  return orSuccess;
}

void Arena::free(void* pointer, size_t size) {
  const size_t offset = static_cast<size_t>(static_cast<char*>(pointer) - device_view_);
  if (size >= kSmallestDiscard) {
    // Before the block can be allocated again.
    const size_t page = platform::page_size();
    const size_t begin = round_up(offset, page);
    const size_t end = (offset + size) / page * page;
    platform::discard(backing_, begin, end - begin);
  }
  std::lock_guard lock(mutex_);
  blocks_->give(offset, size);
}

size_t Arena::free_bytes() {
  std::lock_guard lock(mutex_);
  return free_memory();
}

}  // namespace openreg::sim
