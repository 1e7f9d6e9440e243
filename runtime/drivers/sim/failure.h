// A failed kernel. All streams that it poisons share it; see Note [Failed kernels] in openreg.h.
#pragma once

#include "ref.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace openreg::sim {

/// Thread safety: all functions may be called from any thread.
class Failure : public Counted<Failure> {
 public:
  explicit Failure(const char* message) : message_(message) {}

  const char* message() const { return message_.c_str(); }
  /// True once a thread has got it. Then it poisons no more streams.
  bool reported() const { return reported_.load(); }

  /// Returns false if the calling thread has already got it from another stream.
  [[nodiscard]] bool report() {
    std::lock_guard lock(mutex_);
    reported_.store(true);
    const std::thread::id thread = std::this_thread::get_id();
    if (std::find(threads_.begin(), threads_.end(), thread) != threads_.end()) return false;
    threads_.push_back(thread);
    return true;
  }

 private:
  const std::string message_;
  std::atomic<bool> reported_{false};
  std::mutex mutex_;  // guards threads_
  std::vector<std::thread::id> threads_;
};

}  // namespace openreg::sim
