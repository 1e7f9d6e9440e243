// How the program launches the operations that a worker runs: decides how the worker waits for the next one.
// See Note [Polling] in executor.h.
//
// Thread safety: belongs to one worker.
#pragma once

#include <algorithm>
#include <cstdint>

namespace openreg::sim {

enum class Polling : uint8_t { kSpinning, kPeriodic };

class LaunchPattern {
 public:
  /// An operation that the thread `launcher` has submitted.
  void add(const void* launcher) {
    from_one_thread_ = launcher == launcher_ ? from_one_thread_ + 1 : 0;
    launcher_ = launcher;
  }
  /// `count` operations took `ns` together.
  void add_time(uint64_t count, int64_t ns) {
    if (count == 0) return;
    const auto number = static_cast<int64_t>(count);
    mean_ns_ += (ns / number - mean_ns_) * std::min(number, kWindow) / kWindow;
  }
  Polling polling() const {
    return mean_ns_ < kSmallNs && from_one_thread_ >= kManyOperations ? Polling::kPeriodic
                                                                      : Polling::kSpinning;
  }

 private:
  static constexpr int64_t kWindow = 64;  // operations
  static constexpr int64_t kSmallNs = 4'000;
  static constexpr uint64_t kManyOperations = 256;  // more than a small training step launches

  int64_t mean_ns_ = 4 * kSmallNs;  // unknown kernels are not small
  const void* launcher_ = nullptr;
  uint64_t from_one_thread_ = 0;
};

}  // namespace openreg::sim
