// Free list of the memory of a device: best fit, with coalescing.
//
// It works on offsets and never accesses the memory. Not thread safe; callers lock.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace openreg::sim {

class Blocks {
 public:
  explicit Blocks(size_t size);

  /// Allocates from the smallest free block that fits; returns the offset.
  [[nodiscard]] std::optional<size_t> take(size_t size);
  void give(size_t offset, size_t size);

  size_t free() const { return free_; }

 private:
  void add(size_t offset, size_t size);
  void remove(std::map<size_t, size_t>::iterator block);

  std::map<size_t, size_t> by_offset_;           // free blocks: offset to size; never adjacent
  std::set<std::pair<size_t, size_t>> by_size_;  // the same blocks: (size, offset)
  size_t free_ = 0;
};

}  // namespace openreg::sim
