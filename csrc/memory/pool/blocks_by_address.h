// Blocks that are known by nothing but their address, where an interface hands back no more than that.
#pragma once

#include "memory/pool/block.h"

#include <c10/util/flat_hash_map.h>

#include <mutex>

namespace openreg {

/// Thread safety: all functions, from any thread.
class BlocksByAddress {
 public:
  void add(void* address, Block* block) {
    std::lock_guard<std::mutex> lock(mutex_);
    blocks_.emplace(address, block);
  }

  /// The block, which stays; NULL if there is none.
  Block* find(void* address) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = blocks_.find(address);
    return found == blocks_.end() ? nullptr : found->second;
  }

  /// The block, which is forgotten; NULL if there is none.
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
