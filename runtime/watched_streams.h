// The submitted work of each stream, for the watchdog.
//
// Note [Watched streams]
// The queue of a stream has an entry for each operation: work, records of events and waits for events.
// Observers mark work as finished. A record is reached when everything in front of it is; a wait ends when
// its record is reached. So the first entry of a queue is what the stream does or waits for. Threads that
// submit to one stream at the same time may enter the queue in another order than the driver's; then an entry
// in front of finished ones is the one that is named.
//
// Thread safety: all functions may be called from any thread, unless they say otherwise.
#pragma once

#include "runtime.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace openreg {

/// Identifies work in a queue. `session` is 0 if the work is not watched.
struct WatchedWork {
  uint64_t session = 0;
  int device = 0;
  uint64_t stream = 0;
  uint64_t position = 0;
};

/// A stream without progress.
struct StalledStream {
  int device;
  uint64_t stream;
  std::string text;  // of the report
};

class WatchedStreams {
 public:
  using Clock = std::chrono::steady_clock;

  /// True while the watchdog is on.
  static bool on() { return on_.load(std::memory_order_relaxed); }
  static WatchedStreams& instance();

  /// Forgets all work, and watches, or does not watch, what is submitted from now on.
  void restart(bool on);
  /// Streams that were returned by stalled() are returned again.
  void report_again();

  [[nodiscard]] WatchedWork submitted(const char* function, const char* name, int device, uint64_t stream);
  void finished(const WatchedWork& work);
  void recorded(orEvent_t event, const StreamInfo& stream);
  /// Called before the wait is submitted.
  void waits(orEvent_t event, const EventInfo& info, const StreamInfo& stream, Runtime& runtime);
  /// The latest record of the event is not a point of a stream any more.
  void forget(orEvent_t event);
  /// The stream does not wait any more for the events that it waits for.
  void waits_abandoned(int device, uint64_t stream);

  /// The streams whose first entry is the same for longer than `limit`; each entry is returned once. A stream
  /// that waits for another one makes progress if that one does.
  [[nodiscard]] std::vector<StalledStream> stalled(Clock::duration limit, Runtime& runtime);

 private:
  using Key = std::pair<int, uint64_t>;  // device and stream
  struct Point {                         // a record of an event
    Key stream;
    uint64_t position;
    std::string site;
  };
  struct Entry {
    enum class Kind : uint8_t { kWork, kRecord, kWait, kWaitForProcess };
    Kind kind;
    bool finished = false;
    const char* function = "";
    std::string name{};
    std::string arguments{};
    std::string site{};
    Clock::time_point submitted{};
    Point point{};              // of a kWait
    orEvent_t event = nullptr;  // of a kWaitForProcess
  };
  struct Queue {
    std::deque<Entry> entries{};
    uint64_t first = 0;  // the position of the first entry
    Clock::time_point progress{};
    bool reported = false;  // the first entry
  };

  /// Ends waits for events that other processes have reached. Takes mutex_.
  void query_processes(Runtime& runtime);
  // These require mutex_.
  uint64_t push(Queue& queue, Entry entry);
  void advance(Queue& queue);
  void advance_all();
  bool reached(const Point& point) const;
  Clock::time_point progress_of(const Queue& queue) const;
  std::string describe(const Key& stream, const Queue& queue, Clock::time_point now) const;

  static std::atomic<bool> on_;
  std::mutex mutex_;  // guards the rest; no other lock is taken with it
  uint64_t session_ = 1;
  std::map<Key, Queue> queues_;
  std::unordered_map<orEvent_t, Point> records_;
};

}  // namespace openreg
