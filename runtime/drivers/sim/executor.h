// The threads that run streams which nobody waits for.
//
// Threads start with the work that needs them, at most as many as the machine runs, and never end. One that
// has nothing to do looks for work a few microseconds longer and then sleeps; a submission wakes a thread
// only if more streams are ready than threads are looking.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

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
  /// How often a thread without work looks again before it sleeps.
  int spins() const { return spins_; }

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

  const int spins_;
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
