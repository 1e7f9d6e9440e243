// Events and their records: positions in a stream that streams and threads can wait for.
#pragma once

#include "failure.h"
#include "openreg/types.h"
#include "ref.h"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace openreg::sim {

class SharedEvent;
class Stream;
struct CapturePoint;

/// One record of an event. Waiters hold a reference, so a later record of the same event, or its destruction,
/// does not affect them.
class Record : public Counted<Record> {
 public:
  Record();
  ~Record();

  bool done() const { return done_.load(std::memory_order_acquire); }
  /// Called once, by the stream that reached the record. `failure` is the one that the stream is
  /// poisoned with, or empty. Makes the waiting streams ready.
  void complete(Ref<Failure> failure);
  /// Adds a parked stream to the waiters; returns false if the record is already done.
  [[nodiscard]] bool add_waiter(Stream& stream);

  /// Removes a parked stream, which the record then does not make ready. Returns false if it is not a waiter.
  [[nodiscard]] bool remove_waiter(Stream& stream);

  /// Prepares for a recording. The caller has the only reference.
  void begin(Stream& stream, bool timing);

  /// A record of another process; it has no stream in this process. The IPC event watcher completes it.
  static Ref<Record> of_other_process(Ref<SharedEvent> shared, uint64_t number, int process);
  bool is_of_other_process() const { return shared && !stream; }
  /// For such a record: it is done in the other process, or that process has ended.
  bool is_remote_finished() const;
  void wait_for_other_process() const;

  Ref<SharedEvent> shared;  // of an interprocess event
  uint64_t number = 0;      // of this record in `shared`
  int process = 0;          // process of the record

  Ref<Stream> stream;          // where it was recorded; kept alive after its handle is destroyed
  uint64_t ticket = 0;         // position in the stream
  int64_t time_ns = 0;         // valid once done, with timing
  Ref<Failure> failure;        // valid once done
  Ref<CapturePoint> captured;  // recorded in a capture: never completes

 private:
  bool timing_ = false;
  std::atomic<bool> done_{false};
  std::mutex mutex_;           // guards waiters_ and the transition of done_
  Stream* waiters_ = nullptr;  // each holds a reference
};

/// Reference counted: the handle and nodes of graphs hold references.
class Event : public Counted<Event> {
 public:
  /// `flags`: orEventFlags. `shared`: set for an interprocess event, otherwise empty.
  Event(unsigned flags, Ref<SharedEvent> shared);
  ~Event();

  void record(Stream& stream);
  /// Sets the latest record to a point of a capture.
  void set_captured(Ref<CapturePoint> point);
  /// For several records that are submitted together. Between lock() and unlock(): a record for a submission
  /// to the stream, which becomes the latest with set_latest(). `before`: NULL, or a record that the
  /// submission must wait for first.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  Ref<Record> make_record(Stream& stream, Ref<Record>& before);
  void set_latest(Ref<Record> record) { latest_ = std::move(record); }
  Ref<Record> latest_locked();
  /// The latest record; empty if there is none, or if it is a finished record of another process.
  Ref<Record> latest();
  /// Records and waits in a capture become nodes; see Note [Graphs] in openreg.h.
  bool external() const { return external_; }
  SharedEvent* shared() const { return shared_.get(); }

 private:
  const bool timing_;
  const bool external_;
  const Ref<SharedEvent> shared_;
  std::mutex mutex_;  // guards latest_; held during the submission, so that latest_ is the last submitted
  Ref<Record> latest_;
};

/// Makes the stream wait for a record that is not a point of a capture.
void submit_wait(Stream& stream, Ref<Record> record);

}  // namespace openreg::sim
