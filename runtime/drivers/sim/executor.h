// The worker threads. They run streams that no host thread is running.
//
// Threads start on demand, limited by max_threads(), and never end. A submission wakes a thread only if more
// streams are ready than threads are searching for work.
//
// Note [Spinning]
// Waking a thread costs more than a small kernel, for both threads. An idle thread therefore spins for a
// short time before it sleeps. On a machine with two processors, a spinning thread occupies the second one,
// which the program may need. There, only one thread spins at a time; all spinning threads yield regularly.
#pragma once

#include "pause.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace openreg::sim {

class Stream;

class Executor {
 public:
  static constexpr int kPriorities = 4;

  static Executor& get();
  static int max_threads();

  /// Queues a ready stream. The queue holds a reference.
  void enqueue(Stream& stream, int64_t not_before_ns = 0);

  /// True if a stream is queued.
  bool has_ready() const { return ready_.load(std::memory_order_relaxed) != 0; }
  /// Polls `done` for a short time. See Note [Spinning].
  template <typename Done>
  void spin(Done done) {
    if (spinning_.fetch_add(1, std::memory_order_relaxed) < max_spinning_) {
      for (int poll = 1; poll <= kPolls && !done(); ++poll) {
        poll % kPollsBetweenYields == 0 ? std::this_thread::yield() : pause();
      }
    }
    spinning_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  struct List {
    Stream* first = nullptr;
    Stream* last = nullptr;
  };

  Executor();
  void work();
  Stream* pick(int64_t& earliest_ns);
  Stream* unlink(List& list, Stream* before, Stream* stream);
  bool poll(std::unique_lock<std::mutex>& lock);
  void sleep(std::unique_lock<std::mutex>& lock, int64_t earliest_ns);
  void start_thread();

  static constexpr int kPolls = 1500;             // about 30 microseconds
  static constexpr int kPollsBetweenYields = 50;  // about 1 microsecond

  const int max_spinning_;
  std::atomic<int> spinning_{0};
  std::mutex mutex_;  // guards everything below; no lock is taken under it
  std::condition_variable wake_;
  List lists_[kPriorities];    // highest priority first
  std::atomic<int> ready_{0};  // streams in the lists; spinning threads read it without the lock
  int searching_ = 0;          // threads that will check the lists before they sleep
  int sleeping_ = 0;
  int signals_ = 0;  // signaled threads that have not woken up yet
  int threads_ = 0;
};

}  // namespace openreg::sim
