#include "memory/device_allocator.h"

#include "common/check.h"
#include "common/fork.h"
#include "device/device.h"
#include "memory/kernel_view.h"
#include "memory/mempool_routing.h"
#include "memory/pool/blocks_by_address.h"
#include "memory/pool/ipc_hooks.h"
#include "memory/pool/pool.h"
#include "stream/checked_stream.h"
#include "stream/stream.h"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/COW.h>

#include <memory>
#include <vector>

namespace openreg {

// Leaked: tensors may be freed after static destructors have run.
Pool& pool_of(c10::DeviceIndex device) {
  check_not_forked();
  static auto* pools = [] {
    const Settings settings = settings_of_environment();  // if this throws, the next call tries again
    auto* made = new std::vector<std::unique_ptr<Pool>>();
    for (int i = 0; i < kMaxDevices; ++i) {
      made->push_back(std::make_unique<Pool>(static_cast<c10::DeviceIndex>(i), settings));
    }
    return made;
  }();
  return *(*pools)[static_cast<size_t>(device)];
}

DeviceAllocator& device_allocator() {
  static auto* allocator = new DeviceAllocator;
  return *allocator;
}

void free_block(void* context) {
  if (C10_UNLIKELY(in_forked_child())) {
    return;
  }
  auto* block = static_cast<Block*>(context);
  if (C10_UNLIKELY(block->shared) && ipc_hooks.keep_while_shared(block)) {
    return;
  }
  pool_of(block->device).free(block);
}

namespace {

BlocksByAddress& lazily_cloned() {
  static auto* all = new BlocksByAddress;
  return *all;
}

// The deleter of lazily cloned memory; see is_simple_data_ptr.
void free_by_address(void* ptr) {
  if (C10_UNLIKELY(in_forked_child())) {
    return;
  }
  free_block(lazily_cloned().take(ptr));
}

}  // namespace

Block* block_at(void* ptr) {
  return in_forked_child() ? nullptr : lazily_cloned().find(ptr);
}

Block* lazily_cloned_block(const c10::DataPtr& data) {
  const bool known = data.get_deleter() == &free_by_address || c10::impl::cow::is_cow_data_ptr(data);
  return known ? block_at(data.get()) : nullptr;
}

void refresh_alias(Block* block, size_t bytes) {
  if (C10_UNLIKELY(!has_kernel_view())) {
    return;
  }
  // An alias that is still referenced belongs to an earlier use of the block and keeps the length of that
  // use.
  if (C10_LIKELY(block->alias && block->alias.use_count() == 1)) {
    block->alias->set_nbytes(bytes);
  } else {
    block->alias = make_alias_storage(block->ptr, bytes);
  }
}

Block* DeviceAllocator::allocate_block(c10::DeviceIndex device, size_t bytes) {
  const c10::Stream stream = current_stream(device);
  Block* block = pool_of(device).allocate(bytes, stream.id(), route(stream));
  if (C10_UNLIKELY(races::on())) {
    races::allocated(block->ptr, block->size, checked_stream(stream), call_site());
  }
  return block;
}

c10::DataPtr DeviceAllocator::allocate(size_t bytes) {
  const c10::DeviceIndex index = current_device();
  const c10::Device device(kDevice, index);
  if (bytes == 0) {
    return {nullptr, device};
  }
  Block* block = allocate_block(index, bytes);
  refresh_alias(block, bytes);
  return {block->ptr, block, &free_block, device};
}

bool DeviceAllocator::initialized() {
  return true;
}

void DeviceAllocator::emptyCache(c10::MempoolId_t pool) {
  if (in_forked_child()) {
    return;
  }
  ipc_hooks.collect_shared();
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (device_is_open(device)) {
      pool_of(device).empty_cache(pool);
    }
  }
}

void DeviceAllocator::recordStream(const c10::DataPtr& data, c10::Stream stream) {
  check_not_forked();
  if (Block* block = block_of(data)) {
    pool_of(block->device).record_stream(block, stream);
  } else {
    ipc_hooks.record_received(data, stream);
  }
}

c10::CachingDeviceAllocator::DeviceStats DeviceAllocator::getDeviceStats(c10::DeviceIndex device) {
  return pool_of(resolve(c10::Device(kDevice, device))).stats();
}

void DeviceAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  pool_of(resolve(c10::Device(kDevice, device))).reset_accumulated_stats();
}

void DeviceAllocator::resetPeakStats(c10::DeviceIndex device) {
  pool_of(resolve(c10::Device(kDevice, device))).reset_peak_stats();
}

std::pair<size_t, size_t> DeviceAllocator::getMemoryInfo(c10::DeviceIndex device) {
  DeviceScope scope(device);
  size_t free = 0;
  size_t total = 0;
  OR_CHECK(orMemGetInfo(&free, &total));
  return {free, total};
}

// c10 calls this before it makes memory copy-on-write. The last owner later releases the memory by its
// address, so the DataPtr's context must be the address. Ours is the block, so replace the context here; from
// then on, the block is found by address.
bool DeviceAllocator::is_simple_data_ptr(const c10::DataPtr& data) const {
  if (data.get_deleter() == &free_block && !in_forked_child()) {
    auto& changed = const_cast<c10::DataPtr&>(data);
    void* ptr = changed.get();
    const c10::Device device = changed.device();
    auto* block = static_cast<Block*>(changed.release_context());
    lazily_cloned().add(ptr, block);
    changed = c10::DataPtr(ptr, ptr, &free_by_address, device);
  }
  return data.get_context() == nullptr || data.get_deleter() == &free_by_address;
}

void DeviceAllocator::copy_data(void* dst, const void* src, size_t bytes) const {
  const c10::Stream stream = current_stream(current_device());
  if (C10_UNLIKELY(races::on())) {
    declare_copy(dst, src, bytes, stream, "copy of a copy-on-write tensor");
  }
  OR_CHECK(orMemcpyAsync(dst, src, bytes, orMemcpyDeviceToDevice, stream_handle(stream)));
}

static c10::AllocatorRegisterer<kDevice> register_allocator(&device_allocator());

}  // namespace openreg
