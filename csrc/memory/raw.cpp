#include "memory/raw.h"

#include "memory/device_allocator.h"
#include "memory/pool.h"
#include "memory/routes.h"

#include <mutex>
#include <unordered_map>

namespace openreg {
namespace {

struct Handed {
  std::mutex mutex;  // guards blocks
  std::unordered_map<void*, Block*> blocks;
};

Handed& handed() {
  static auto* all = new Handed;
  return *all;
}

}  // namespace

void* raw_allocate(size_t bytes, c10::Stream stream) {
  if (bytes == 0) {
    return nullptr;
  }
  Block* block = pool_of(stream.device_index()).allocate(bytes, stream.id(), route(stream));
  std::lock_guard<std::mutex> lock(handed().mutex);
  handed().blocks.emplace(block->ptr, block);
  return block->ptr;
}

void raw_delete(void* ptr) {
  if (ptr == nullptr) {
    return;
  }
  Block* block = nullptr;
  {
    std::lock_guard<std::mutex> lock(handed().mutex);
    const auto found = handed().blocks.find(ptr);
    TORCH_CHECK_VALUE(found != handed().blocks.end(), ptr,
                      " is not memory from caching_allocator_alloc, or was deleted already");
    block = found->second;
    handed().blocks.erase(found);
  }
  free_block(block);
}

}  // namespace openreg
