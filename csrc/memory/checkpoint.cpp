#include "memory/checkpoint.h"

#include "device/device.h"
#include "memory/device_allocator.h"
#include "memory/raw.h"

#include <unordered_map>
#include <unordered_set>

namespace openreg {
namespace {

bool is_in_use(const PoolCheckpoint& checkpoint, void* ptr) {
  for (const auto& [address, segment] : checkpoint.segments) {
    for (const auto& block : segment.blocks) {
      if (block.ptr == ptr) {
        return block.in_use;
      }
    }
  }
  return false;
}

}  // namespace

void restore_checkpoint(c10::DeviceIndex device, const PoolCheckpoint& checkpoint,
                        const std::vector<c10::StorageImpl*>& stale,
                        const std::vector<c10::StorageImpl*>& owners) {
  std::unordered_set<void*> stale_ptrs;
  for (c10::StorageImpl* storage : stale) {
    const c10::DataPtr& data = storage->data_ptr();
    const bool owns = data.get_deleter() == &free_block;
    const Block* block = owns ? static_cast<const Block*>(data.get_context()) : nullptr;
    TORCH_CHECK(owns && block->device == device && id_of(block->home) == checkpoint.pool && !block->shared,
                "the stale storage at ", data.get(), " does not own memory of the pool (",
                checkpoint.pool.first, ", ", checkpoint.pool.second, ") of device ", static_cast<int>(device),
                ", or shares it with another process");
    stale_ptrs.insert(data.get());
  }
  std::unordered_map<void*, c10::StorageImpl*> owner_at;
  for (c10::StorageImpl* storage : owners) {
    TORCH_CHECK(storage->data_ptr().get_context() == nullptr, "the storage at ", storage->data_ptr().get(),
                " already owns its memory; pass a storage that was constructed from a data pointer");
    void* ptr = storage->data_ptr().get();
    TORCH_CHECK(is_in_use(checkpoint, ptr), "the checkpoint has no memory in use at ", ptr,
                ", the address of a storage that would own it");
    TORCH_CHECK(stale_ptrs.contains(ptr) || is_raw(ptr) || !pool_of(device).is_in_use(checkpoint.pool, ptr),
                "the memory at ", ptr, " already has an owner, which is not stale");
    owner_at.emplace(ptr, storage);
  }
  std::vector<Block*> unowned = pool_of(device).restore(checkpoint, stale_ptrs);
  for (const auto& [ptr, storage] : owner_at) {
    if (Block* block = take_raw(ptr)) {
      unowned.push_back(block);
    }
  }
  for (c10::StorageImpl* storage : stale) {
    (void)!storage->_mutable_data_ptr_no_checks().compare_exchange_deleter(&free_block,
                                                                           &c10::detail::deleteNothing);
  }
  for (Block* block : unowned) {
    if (const auto found = owner_at.find(block->ptr); found != owner_at.end()) {
      refresh_alias(block, found->second->nbytes());
      found->second->set_data_ptr_noswap({block->ptr, block, &free_block, c10::Device(kDevice, device)});
    } else {
      add_raw(block);
    }
  }
}

bool owns_memory(const c10::StorageImpl* storage) {
  return storage->data_ptr().get_deleter() == &free_block;
}

void free_memory(c10::StorageImpl* storage) {
  c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (void* block = data.get_context();
      data.compare_exchange_deleter(&free_block, &c10::detail::deleteNothing)) {
    free_block(block);
  }
}

}  // namespace openreg
