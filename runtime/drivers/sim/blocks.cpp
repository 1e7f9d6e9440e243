#include "blocks.h"

#include <iterator>

namespace openreg::sim {

Blocks::Blocks(size_t size) {
  give(0, size);
}

void Blocks::add(size_t offset, size_t size) {
  by_offset_.emplace(offset, size);
  by_size_.emplace(size, offset);
}

void Blocks::remove(std::map<size_t, size_t>::iterator block) {
  by_size_.erase({block->second, block->first});
  by_offset_.erase(block);
}

std::optional<size_t> Blocks::take(size_t size) {
  const auto best = by_size_.lower_bound({size, 0});
  if (best == by_size_.end()) return std::nullopt;
  const auto [block_size, offset] = *best;
  remove(by_offset_.find(offset));
  if (block_size > size) add(offset + size, block_size - size);
  free_ -= size;
  return offset;
}

void Blocks::give(size_t offset, size_t size) {
  free_ += size;
  auto next = by_offset_.lower_bound(offset);
  if (next != by_offset_.end() && next->first == offset + size) {
    size += next->second;
    const auto after = std::next(next);
    remove(next);
    next = after;
  }
  if (next != by_offset_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      size += previous->second;
      remove(previous);
    }
  }
  add(offset, size);
}

}  // namespace openreg::sim
