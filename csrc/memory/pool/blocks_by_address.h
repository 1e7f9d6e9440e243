// Blocks by address, for interfaces that pass only a pointer.
#pragma once

#include "memory/pool/block.h"

#include <c10/util/flat_hash_map.h>

#include <mutex>

namespace openreg {

/// Thread safety: all functions may be called from any thread.
class BlocksByAddress {
 public:
  void add(void* address, Block* block) {
    std::lock_guard<std::mutex> lock(mutex_);
    blocks_.emplace(address, block);
  }

  /// The block, which stays in the map; NULL if there is none.
  Block* find(void* address) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = blocks_.find(address);
    return found == blocks_.end() ? nullptr : found->second;
  }

  /// Removes the block from the map and returns it; NULL if there is none.
  Block* take(void* address) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) {
      return nullptr;
    }
    Block* block = found->second;
    blocks_.erase(found);
    return block;
  }

 private:
  std::mutex mutex_;  // guards blocks_
  ska::flat_hash_map<void*, Block*> blocks_;
};

}  // namespace openreg
