// A simulated device: its memory and its streams.
#pragma once

#include "arena.h"
#include "failure.h"
#include "openreg/error.h"
#include "ref.h"
#include "stream.h"

#include <mutex>
#include <unordered_set>
#include <vector>

namespace openreg::sim {

class Device {
 public:
  /// Waits for all work submitted so far, also to streams whose handle was destroyed.
  [[nodiscard]] orError_t wait();
  /// As wait, for a call inside a kernel: fails if the device has unfinished work other than this kernel.
  [[nodiscard]] orError_t check_idle_but_caller(int index);
  /// Returns and clears one kernel failure, if any.
  [[nodiscard]] orError_t take_failure();
  bool running_here();
  void clear_failures();

  /// All live streams, also those without a handle.
  std::vector<Ref<Stream>> streams();

  // ---- For Stream's constructor and destructor.
  void add(Stream& stream);
  /// `failure`: an unreported failure, or empty.
  void remove(Stream& stream, Ref<Failure> failure);

  Arena arena;

 private:
  std::mutex mutex_;  // guards the two below
  std::unordered_set<Stream*> streams_;
  std::vector<Ref<Failure>> orphaned_failures_;  // of destroyed streams
};

}  // namespace openreg::sim
