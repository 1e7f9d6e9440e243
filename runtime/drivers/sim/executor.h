// The worker threads. They run streams that no host thread is running.
//
// Threads start on demand, limited by max_threads(), and never end. A submission wakes a thread only if more
// streams are ready than threads are searching for work.
//
// Note [Polling]
// Waking a thread costs more than a small kernel, for both threads. An idle thread therefore polls for a
// short time before it sleeps, and a submission need not wake it.
//
// kSpinning: it polls continuously, so that the next kernel starts at once. On a machine with two processors,
// that occupies the second one, which the program may need. There, only one thread spins at a time; all
// spinning threads yield regularly.
//
// kPeriodic: it polls once per period, and sleeps meanwhile. One thread launches small kernels: passing each
// of them to another processor costs more than the kernel, and the second processor is better left to others.
// A host thread that waits for the kernels does not wait for the period, but runs them itself.
// LaunchPattern decides. Spinning is better if threads of the program take turns, as in a backward pass:
// they wake each other, and a processor that sleeps wakes up late.
#pragma once

#include "launch_pattern.h"
#include "pause.h"

#include <atomic>
#include <chrono>
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
  /// Around the polling of a worker for one stream. Meanwhile it also looks for ready streams. `claimed` is
  /// the stream if the worker runs it next, else NULL; another thread is woken for other ready streams.
  void begin_watch() { watching_.fetch_add(1); }
  void end_watch(const Stream* claimed);
  /// Polls `done` for a short time. See Note [Polling].
  template <typename Done>
  void poll(Polling polling, Done done) {
    if (polling == Polling::kPeriodic) {
      for (int poll = 1; poll <= kPeriods && !done(); ++poll) std::this_thread::sleep_for(kPeriod);
      return;
    }
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
  bool wait_for_ready(std::unique_lock<std::mutex>& lock, Polling polling);
  void sleep(std::unique_lock<std::mutex>& lock, int64_t earliest_ns);
  void wake_for(int ready, std::unique_lock<std::mutex>& lock);
  void start_thread();

  static constexpr int kPolls = 1500;             // about 30 microseconds
  static constexpr int kPollsBetweenYields = 50;  // about 1 microsecond
  static constexpr std::chrono::microseconds kPeriod{100};
  static constexpr int kPeriods = 10;

  const int max_spinning_;
  std::atomic<int> spinning_{0};
  std::mutex mutex_;  // guards everything below; no lock is taken under it
  std::condition_variable wake_;
  List lists_[kPriorities];    // highest priority first
  std::atomic<int> ready_{0};  // streams in the lists; polling threads read it without the lock
  std::atomic<int> watching_{0};
  int searching_ = 0;  // threads that will check the lists before they sleep
  int sleeping_ = 0;
  int signals_ = 0;  // signaled threads that have not woken up yet
  int threads_ = 0;
};

}  // namespace openreg::sim
