// Which parts of a device's memory are in use: best fit over an address-ordered map, with coalescing.
//
// Offsets, not addresses: nothing here touches the memory. Not thread safe; the arena locks.
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

  /// The offset of a block, the smallest that fits.
  [[nodiscard]] std::optional<size_t> take(size_t size);
  void give(size_t offset, size_t size);

  size_t free() const { return free_; }
  size_t largest() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

 private:
  void add(size_t offset, size_t size);
  void remove(std::map<size_t, size_t>::iterator block);

  std::map<size_t, size_t> by_offset_;           // free blocks: offset to size; no two touch
  std::set<std::pair<size_t, size_t>> by_size_;  // the same, by size and then offset
  size_t free_ = 0;
};

}  // namespace openreg::sim
