// Events. Each recording has a CUDA event of its own, so that held waits keep the record that they wait for.
#pragma once

#include "cuda_api.h"
#include "openreg/driver.h"
#include "shared_event.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace nv {

class Capture;
struct Device;
struct Failure;
class Stream;

/// Pinned memory that functions on the GPU write if they fail: the name of the function, and a value.
class FailureWords {
 public:
  FailureWords() = default;
  ~FailureWords();
  FailureWords(const FailureWords&) = delete;
  FailureWords& operator=(const FailureWords&) = delete;
  orError_t allocate(const Device& device);
  uint64_t* words() const { return words_; }
  /// The message of a failure, which is then cleared; or the empty string.
  std::string take();

 private:
  uint64_t* words_ = nullptr;
  const Device* device_ = nullptr;
};

/// One recording of an event.
class Record {
 public:
  Record(Device& device, bool timing) : device_(device), timing_(timing) {}
  /// Of a shared event, which has one event of CUDA: a held wait may wait for a later record. `ours`: this
  /// process records it.
  Record(std::shared_ptr<SharedEvent> shared, bool ours);
  ~Record();
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  orError_t create();
  CUevent native() const { return native_; }
  Device& device() const { return device_; }
  bool submitted() const { return submitted_.load(std::memory_order_acquire); }
  /// Returns true if the record is submitted; otherwise the stream is resumed when it is.
  bool submitted_or_resume(const std::shared_ptr<Stream>& stream);
  void set_submitted(std::shared_ptr<Failure> failure, std::shared_ptr<FailureWords> words);
  void reset();
  /// Blocks until the record is given to CUDA and reached.
  orError_t wait() const;
  bool done() const;
  /// Returns the unreported failure of the stream before the record.
  orError_t report() const;

  /// Of the stream when it reached the record. Set before `submitted`.
  const std::shared_ptr<Failure>& failure() const { return failure_; }
  const Stream* recorded_on = nullptr;  // for comparisons only

 private:
  Device& device_;
  const bool timing_;
  CUevent native_ = nullptr;
  const std::shared_ptr<SharedEvent> shared_;  // may be NULL
  std::atomic<bool> holds_{false};             // see Note [Held records of shared events]
  std::atomic<bool> submitted_{false};
  std::shared_ptr<Failure> failure_;
  std::shared_ptr<FailureWords> words_;
  std::mutex mutex_;                              // guards waiting_
  std::vector<std::shared_ptr<Stream>> waiting_;  // held until the record is submitted
};

/// A recording in a capture: the nodes that precede it.
struct CapturePoint {
  std::shared_ptr<Capture> capture;
  std::vector<uint32_t> tails;
};

class Event : public std::enable_shared_from_this<Event> {
 public:
  Event(Device& device, unsigned flags, std::shared_ptr<SharedEvent> shared)
      : device_(device), flags_(flags), shared_(std::move(shared)) {}
  /// An event that lives until it is destroyed. `shared`: NULL, or what it has in common with other
  /// processes.
  static orDriverEvent* create(Device& device, unsigned flags, std::shared_ptr<SharedEvent> shared);
  static Event& of(orDriverEvent* handle) { return *reinterpret_cast<Event*>(handle); }
  Device& device() const { return device_; }
  bool external() const { return (flags_ & orEventExternal) != 0; }

  /// The record to wait for; NULL if there is none. If another process holds a record, one that is submitted
  /// when that process has.
  std::shared_ptr<Record> latest();
  std::shared_ptr<CapturePoint> captured();
  /// A new latest record, which is not yet submitted.
  orError_t renew(std::shared_ptr<Record>& record);
  void set_captured(std::shared_ptr<CapturePoint> point);
  const std::shared_ptr<SharedEvent>& shared() const { return shared_; }

  std::shared_ptr<Event> self;  // until the event is destroyed; nodes of graphs also keep it

 private:
  Device& device_;
  const unsigned flags_;
  const std::shared_ptr<SharedEvent> shared_;  // NULL without orEventInterprocess
  std::mutex mutex_;                           // guards everything below
  std::shared_ptr<Record> latest_;
  std::shared_ptr<CapturePoint> captured_;
};

// Entries of the table.
orError_t event_create(int index, unsigned flags, orDriverEvent** event);
orError_t event_destroy(orDriverEvent* event);
orError_t event_record(orDriverEvent* event, orDriverStream* stream);
orError_t event_query(orDriverEvent* event);
orError_t event_synchronize(orDriverEvent* event);
orError_t event_elapsed(orDriverEvent* start, orDriverEvent* end, float* milliseconds);

}  // namespace nv
