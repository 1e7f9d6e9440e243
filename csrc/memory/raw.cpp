#include "memory/raw.h"

#include "common/fork.h"
#include "memory/device_allocator.h"
#include "memory/mempool_routing.h"
#include "memory/pool/blocks_by_address.h"
#include "memory/pool/pool.h"

namespace openreg {
namespace {

BlocksByAddress& raw_blocks() {
  static auto* all = new BlocksByAddress;
  return *all;
}

}  // namespace

void* raw_allocate(size_t bytes, c10::Stream stream) {
  if (bytes == 0) {
    return nullptr;
  }
  Block* block = pool_of(stream.device_index()).allocate(bytes, stream.id(), route(stream));
  add_raw(block);
  return block->ptr;
}

void add_raw(Block* block) {
  raw_blocks().add(block->ptr, block);
}

Block* take_raw(void* ptr) {
  return raw_blocks().take(ptr);
}

bool is_raw(void* ptr) {
  return raw_blocks().find(ptr) != nullptr;
}

void raw_delete(void* ptr) {
  if (ptr == nullptr) {
    return;
  }
  if (in_forked_child()) {
    return;
  }
  Block* block = take_raw(ptr);
  TORCH_CHECK_VALUE(block != nullptr, "invalid device pointer: ", ptr,
                    " was not returned by caching_allocator_alloc, or was deleted already");
  free_block(block);
}

}  // namespace openreg
