// The threads that run streams which nobody waits for.
//
// Threads start with the work that needs them, at most as many as the machine runs, and never end. A
// submission wakes a thread only if more streams are ready than threads are looking.
//
// Note [Lingering]
// To wake a thread costs both sides more than a small kernel takes. A thread that has nothing to do therefore
// lingers: it looks for work a while longer, and then sleeps. On a machine of two processors a thread that
// lingers has the second one, which the program may need for a thread of its own: so there is one at a time,
// and it offers the processor again and again. Who is the second does not linger.
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

  /// The stream is ready. Takes a reference while it is in the queue.
  void enqueue(Stream& stream, int64_t not_before_ns = 0);

  /// True if a stream waits for a thread.
  bool has_ready() const { return ready_.load(std::memory_order_relaxed) != 0; }
  /// Looks again and again whether there is something to do, for a while. See Note [Lingering].
  template <typename Done>
  void linger(Done done) {
    if (lingering_.fetch_add(1, std::memory_order_relaxed) < most_lingering_) {
      for (int look = 1; look <= kLooks && !done(); ++look) {
        look % kLooksBetweenOffers == 0 ? std::this_thread::yield() : pause();
      }
    }
    lingering_.fetch_sub(1, std::memory_order_relaxed);
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
  bool look(std::unique_lock<std::mutex>& lock);
  void sleep(std::unique_lock<std::mutex>& lock, int64_t earliest_ns);
  void start_thread();

  static constexpr int kLooks = 1500;             // some 30 microseconds
  static constexpr int kLooksBetweenOffers = 50;  // one

  const int most_lingering_;
  std::atomic<int> lingering_{0};
  std::mutex mutex_;  // guards everything below; nothing is locked under it
  std::condition_variable wake_;
  List lists_[kPriorities];    // most urgent first
  std::atomic<int> ready_{0};  // streams in the lists; read without the lock while looking
  int looking_ = 0;            // threads that will look at the lists before they sleep
  int sleeping_ = 0;
  int signals_ = 0;  // sleepers that were told to wake and have not yet
  int threads_ = 0;
};

}  // namespace openreg::sim
