// Events, and their records: points in a stream that someone can wait for.
#pragma once

#include "openreg/error.h"
#include "ref.h"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace openreg::sim {

class SharedEvent;
class Stream;
struct CapturePoint;

/// One record of an event. Whoever waits for it keeps it, so that a later record of the same event, or the
/// event's end, changes nothing for them.
class Record : public Counted<Record> {
 public:
  Record();
  ~Record();

  bool done() const { return done_.load(std::memory_order_acquire); }
  /// Called once, by the stream that reached the record. `failure` is the number of the stream's unreported
  /// failure, or 0. Makes ready the streams that wait.
  void complete(uint64_t failure);
  /// Puts a parked stream on the list of those to make ready; false if the record is done already.
  [[nodiscard]] bool add_waiter(Stream& stream);

  /// Prepares for a recording, while nobody else has a reference.
  void begin(Stream& stream, bool timing);

  /// A record that another process has made; it has no stream here. The event watcher completes it.
  static Ref<Record> of_other_process(Ref<SharedEvent> shared, uint64_t number, int process);
  bool is_of_other_process() const { return shared && !stream; }
  /// For such a record: done there, or never to be, since its process has died.
  bool is_over_there() const;
  void wait_for_other_process() const;

  Ref<SharedEvent> shared;  // of an interprocess event
  uint64_t number = 0;      // of this record there
  int process = 0;          // that made it

  Ref<Stream> stream;          // where it was recorded; it may outlive its handle through this
  uint64_t ticket = 0;         // its place there
  int64_t time_ns = 0;         // valid once done, with timing
  uint64_t failure = 0;        // valid once done
  Ref<CapturePoint> captured;  // made in a capture: never done, never waited for

 private:
  bool timing_ = false;
  std::atomic<bool> done_{false};
  std::mutex mutex_;           // guards waiters_, and done_ becoming true
  Stream* waiters_ = nullptr;  // each holds a reference
};

class Event {
 public:
  /// `shared`: of an interprocess event, else empty.
  Event(bool timing, Ref<SharedEvent> shared);
  ~Event();

  void record(Stream& stream);
  /// Its latest record is a point of a capture.
  void set_captured(Ref<CapturePoint> point);
  /// The latest record; empty if there is none, or one of another process that is over.
  Ref<Record> latest();
  SharedEvent* shared() const { return shared_.get(); }

 private:
  const bool timing_;
  const Ref<SharedEvent> shared_;
  std::mutex mutex_;  // guards latest_; held while the record is submitted, so that the latest is the latest
  Ref<Record> latest_;
};

}  // namespace openreg::sim
