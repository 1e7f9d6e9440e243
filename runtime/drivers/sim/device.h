// A simulated device: its memory and its streams.
#pragma once

#include "arena.h"
#include "openreg/error.h"
#include "ref.h"
#include "stream.h"

#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

namespace openreg::sim {

class Device {
 public:
  /// Waits for everything submitted so far, also to streams whose handle is gone.
  [[nodiscard]] orError_t wait();
  /// As wait, but for a kernel that calls: fails if there is anything to wait for but itself.
  [[nodiscard]] orError_t check_idle_but_caller(int index);
  /// Reports and clears one failure, if there is one.
  [[nodiscard]] orError_t take_failure();
  bool running_here();
  void forget_failures();

  /// Those that are alive, also without a handle.
  std::vector<Ref<Stream>> streams();

  // ---- For Stream's constructor and destructor.
  void add(Stream& stream);
  /// `failure`: words of a failure that nobody was told of, or NULL.
  void remove(Stream& stream, const char* failure);

  Arena arena;

 private:
  std::mutex mutex_;  // guards the two below
  std::unordered_set<Stream*> streams_;
  std::vector<std::string> orphaned_failures_;  // of streams that are gone
};

}  // namespace openreg::sim
