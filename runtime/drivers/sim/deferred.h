// A kernel that has returned before its work is done; see Note [Deferred kernels] in openreg.h.
#pragma once

#include "openreg/types.h"
#include "ref.h"

#include <atomic>
#include <cstdint>

namespace openreg::sim {

class Stream;
struct Operation;

/// Two threads complete it: the one that ran the kernel, and the one that finishes it. The later of both, as
/// `state` says, ends the kernel.
struct Deferred {
  enum class State { kRunning, kReturned, kFinished };

  std::atomic<State> state{State::kRunning};
  // Set before kReturned. The stream stays claimed until the kernel ends.
  Ref<Stream> stream;
  Operation* operation = nullptr;
  int64_t start_ns = 0;
  // Set before kFinished.
  orError_t result = orSuccess;
  char why[768] = {};
};

}  // namespace openreg::sim
