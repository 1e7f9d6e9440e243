#include "distributed/group_state.h"

#include <chrono>

namespace openreg::distributed {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

void GroupState::set_name(std::string name) {
  std::lock_guard lock(mutex_);
  name_ = std::move(name);
}

std::string GroupState::name() const {
  std::lock_guard lock(mutex_);
  return name_;
}

void GroupState::check() const {
  std::lock_guard lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, failure_.empty(), "the process group '", name_,
                   "' cannot be used any more, because an operation of this rank has failed: ", failure_);
}

void GroupState::fail(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
}

bool GroupState::failed() const {
  std::lock_guard lock(mutex_);
  return !failure_.empty();
}

FlightRecord* GroupState::find(size_t number) {
  if (records_.empty() || number < records_.front().number) return nullptr;
  return &records_[number - records_.front().number];
}

size_t GroupState::begin(const Call& call) {
  std::lock_guard lock(mutex_);
  ++pending_;
  if (records_.size() == kRecords) records_.pop_front();
  records_.push_back({next_, call, now(), 0, 0, {}});
  return next_++;
}

void GroupState::started(size_t record) {
  std::lock_guard lock(mutex_);
  if (FlightRecord* found = find(record)) found->started = now();
}

void GroupState::ended(size_t record, const std::string& error) {
  std::lock_guard lock(mutex_);
  if (FlightRecord* found = find(record)) {
    found->ended = now();
    found->error = error;
  }
  if (--pending_ == 0) changed_.notify_all();
}

void GroupState::wait_for_all() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return pending_ == 0; });
}

std::deque<FlightRecord> GroupState::records() const {
  std::lock_guard lock(mutex_);
  return records_;
}

}  // namespace openreg::distributed
