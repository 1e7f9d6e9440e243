// A vector clock: for each stream, the number of its launches that are known to precede a point.
//
// Thread safety: none; the checker's mutex guards all clocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace openreg::races {

class VectorClock {
 public:
  uint64_t at(uint32_t stream) const { return stream < counts_.size() ? counts_[stream] : 0; }

  /// The next launch of `stream`. Returns its number.
  uint64_t tick(uint32_t stream) {
    if (stream >= counts_.size()) {
      counts_.resize(stream + 1);
    }
    return ++counts_[stream];
  }

  void join(const VectorClock& other) {
    if (counts_.size() < other.counts_.size()) {
      counts_.resize(other.counts_.size());
    }
    for (size_t i = 0; i < other.counts_.size(); ++i) {
      counts_[i] = std::max(counts_[i], other.counts_[i]);
    }
  }

  /// Whether launch number `number` of `stream` precedes this point.
  bool follows(uint32_t stream, uint64_t number) const { return at(stream) >= number; }

 private:
  std::vector<uint64_t> counts_;
};

}  // namespace openreg::races
