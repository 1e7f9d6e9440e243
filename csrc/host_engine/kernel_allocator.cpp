#include "host_engine/kernel_allocator.h"

#include "common/fork.h"
#include "kernel/thread_state.h"
#include "memory/device_allocator.h"
#include "memory/kernel_view.h"
#include "memory/pool/blocks_by_address.h"

#include <c10/core/CPUAllocator.h>
#include <openreg/openreg.h>

#include <atomic>
#include <cstring>

namespace openreg {
namespace {

constexpr uint8_t kHighestPriority = 255;

// Pool-backed memory that kernels hold: kernel-view address to block. raw_deallocate passes only the address,
// so the context of every DataPtr is the address.
BlocksByAddress& pool_backed() {
  static auto* all = new BlocksByAddress;
  return *all;
}

// The range of all addresses that were ever in pool_backed(). A forked child must not use pool_backed(), but
// still has to free host memory.
std::atomic<uintptr_t> lowest_pool_backed{UINTPTR_MAX};
std::atomic<uintptr_t> highest_pool_backed{0};

void extend_pool_backed_range(void* ptr) {
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  uintptr_t lowest = lowest_pool_backed.load(std::memory_order_relaxed);
  while (address < lowest && !lowest_pool_backed.compare_exchange_weak(lowest, address)) {
  }
  uintptr_t highest = highest_pool_backed.load(std::memory_order_relaxed);
  while (address > highest && !highest_pool_backed.compare_exchange_weak(highest, address)) {
  }
}

bool may_be_pool_backed(void* ptr) {
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  return address >= lowest_pool_backed.load(std::memory_order_relaxed) &&
         address <= highest_pool_backed.load(std::memory_order_relaxed);
}

c10::Allocator* host = nullptr;  // PyTorch's allocator; set before the first kernel

// `ptr` may be any host pointer, or null: the difference is computed with integers.
bool is_kernel_view(void* ptr) {
  const uintptr_t device = reinterpret_cast<uintptr_t>(ptr) - static_cast<uintptr_t>(kernel_view_offset());
  orPointerAttributes attributes{};
  attributes.struct_size = sizeof(attributes);
  return orPointerGetAttributes(&attributes, reinterpret_cast<void*>(device)) == orSuccess &&
         attributes.type == orMemoryTypeDevice;
}

void release(void* ptr) {
  if (C10_UNLIKELY(in_forked_child())) {
    if (!may_be_pool_backed(ptr)) {
      host->raw_deleter()(ptr);
    }
    return;
  }
  if (Block* block = pool_backed().take(ptr)) {
    free_block(block);
  } else if (!is_kernel_view(ptr)) {  // an output buffer belongs to its device tensor
    host->raw_deleter()(ptr);
  }
}

class KernelAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (C10_LIKELY(thread_state.allocates_from == ThreadState::kHost) || bytes == 0) {
      return host->allocate(bytes);
    }
    if (thread_state.allocates_from == ThreadState::kOutputBuffers) {
      return take_output_buffer(bytes);
    }
    Block* block = device_allocator().allocate_block(thread_state.allocates_from, bytes);
    void* ptr = kernel_view(block->ptr);
    extend_pool_backed_range(ptr);
    pool_backed().add(ptr, block);
    return {ptr, ptr, &release, c10::Device(c10::kCPU)};
  }

  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return host->is_simple_data_ptr(data); }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* dst, const void* src, size_t bytes) const override { std::memcpy(dst, src, bytes); }

 private:
  static c10::DataPtr take_output_buffer(size_t bytes) {
    for (OutputBuffer& output_buffer : thread_state.output_buffers) {
      if (!output_buffer.taken && output_buffer.bytes == bytes) {
        output_buffer.taken = true;
        return {output_buffer.kernel_ptr, output_buffer.kernel_ptr, &c10::detail::deleteNothing,
                c10::Device(c10::kCPU)};
      }
    }
    return host->allocate(bytes);
  }
};

// A kernel that resizes an alias allocates from this allocator.
[[maybe_unused]] const bool registered = [] {
  set_alias_allocator(&kernel_allocator);
  return true;
}();

}  // namespace

Block* take_pool_block(c10::DataPtr& data) {
  if (data.get_deleter() != &release) {
    return nullptr;
  }
  Block* block = pool_backed().take(data.get());
  if (block != nullptr) {
    data.release_context();
  }
  return block;
}

c10::Allocator& kernel_allocator() {
  static auto* allocator = [] {
    host = c10::GetCPUAllocator();
    auto* made = new KernelAllocator;
    c10::SetCPUAllocator(made, kHighestPriority);
    return made;
  }();
  return *allocator;
}

}  // namespace openreg
