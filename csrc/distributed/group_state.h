// The state that the operations of a group share: its name, its first failure, and its flight recorder.
//
// The first failure ends the group: later data of the ranks would not match any more. The flight recorder has
// the last operations of this rank. Thread safety: all functions may be called from any thread.
#pragma once

#include "common/export.h"
#include "distributed/transport/message.h"

#include <c10/util/Exception.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>

namespace openreg::distributed {

/// An entry of the flight recorder. Times are seconds of the system clock; 0: not yet.
struct FlightRecord {
  size_t number = 0;
  Call call;
  double called = 0;
  double started = 0;
  double ended = 0;
  std::string error;  // of a failed operation
};

class OPENREG_EXPORT GroupState {
 public:
  static constexpr size_t kRecords = 2000;

  explicit GroupState(int rank) : rank_(rank) {}

  void set_name(std::string name);
  std::string name() const;
  int rank() const { return rank_; }

  /// Throws DistBackendError if an operation of the group has failed.
  void check() const;
  void fail(const std::string& why);
  bool failed() const;

  // ---- Operations that have not ended; for the end of the group.
  size_t begin(const Call& call);
  void started(size_t record);
  void ended(size_t record, const std::string& error);
  void wait_for_all() const;

  std::deque<FlightRecord> records() const;

 private:
  FlightRecord* find(size_t number);

  const int rank_;
  mutable std::mutex mutex_;  // guards everything below
  mutable std::condition_variable changed_;
  std::string name_ = "0";
  std::string failure_;
  size_t pending_ = 0;
  size_t next_ = 0;
  std::deque<FlightRecord> records_;
};

}  // namespace openreg::distributed
