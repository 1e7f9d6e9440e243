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

constexpr uint8_t kAboveAll = 255;

// Memory from the pool that a kernel holds: kernel-view address to block. raw_deallocate brings back nothing
// but the address, and so the address is the context of every DataPtr here.
BlocksByAddress& pool_backed() {
  static auto* all = new BlocksByAddress;
  return *all;
}

// Every address that was ever in pool_backed() lies between these two. A forked child may not ask
// pool_backed(), but still frees host memory.
std::atomic<uintptr_t> lowest_born{UINTPTR_MAX};
std::atomic<uintptr_t> highest_born{0};

void widen_born(void* ptr) {
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  uintptr_t lowest = lowest_born.load(std::memory_order_relaxed);
  while (address < lowest && !lowest_born.compare_exchange_weak(lowest, address)) {
  }
  uintptr_t highest = highest_born.load(std::memory_order_relaxed);
  while (address > highest && !highest_born.compare_exchange_weak(highest, address)) {
  }
}

bool may_be_born(void* ptr) {
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  return address >= lowest_born.load(std::memory_order_relaxed) &&
         address <= highest_born.load(std::memory_order_relaxed);
}

c10::Allocator* host = nullptr;  // PyTorch's own; set before the first kernel

bool is_kernel_view(void* ptr) {
  orPointerAttributes attributes{};
  attributes.struct_size = sizeof(attributes);
  return orPointerGetAttributes(&attributes, static_cast<char*>(ptr) - kernel_view_offset()) == orSuccess &&
         attributes.type == orMemoryTypeDevice;
}

void release(void* ptr) {
  if (C10_UNLIKELY(in_forked_child())) {
    if (!may_be_born(ptr)) {
      host->raw_deleter()(ptr);
    }
    return;
  }
  if (Block* block = pool_backed().take(ptr)) {
    free_block(block);
  } else if (!is_kernel_view(ptr)) {  // an output buffer belongs to the tensor that it was allocated for
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
    widen_born(ptr);
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

// Aliases may be resized by a kernel, and then ask for memory here.
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
    c10::SetCPUAllocator(made, kAboveAll);
    return made;
  }();
  return *allocator;
}

}  // namespace openreg
