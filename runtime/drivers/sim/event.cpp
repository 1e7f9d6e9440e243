#include "event.h"

#include "capture.h"
#include "schedule.h"
#include "stream.h"

namespace openreg::sim {

Record::Record() = default;
Record::~Record() = default;

void Record::begin(Stream& new_stream, bool timing) {
  stream = Ref<Stream>(&new_stream);
  ticket = 0;
  time_ns = 0;
  failure = 0;
  captured = {};
  timing_ = timing;
  done_.store(false, std::memory_order_relaxed);
}

void Record::complete(uint64_t new_failure) {
  failure = new_failure;
  if (timing_) time_ns = now_ns();
  Stream* waiter;
  {
    std::lock_guard lock(mutex_);
    done_.store(true, std::memory_order_release);
    waiter = std::exchange(waiters_, nullptr);
  }
  while (waiter) {
    Ref<Stream> stream = Ref<Stream>::adopt(waiter);
    waiter = std::exchange(stream->next_waiter, nullptr);
    stream->unpark();
  }
}

bool Record::add_waiter(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (done_.load(std::memory_order_relaxed)) return false;
  stream.retain();
  stream.next_waiter = std::exchange(waiters_, &stream);
  return true;
}

Event::Event(bool timing) : timing_(timing) {}
Event::~Event() = default;

void Event::set_captured(Ref<CapturePoint> point) {
  Ref<Record> record = Ref<Record>::adopt(new Record);
  record->captured = std::move(point);
  std::lock_guard lock(mutex_);
  std::swap(latest_, record);
}

void Event::record(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (latest_ && latest_->unique()) {
    latest_->begin(stream, timing_);
    stream.submit_record(latest_);
    return;
  }
  Ref<Record> record = Ref<Record>::adopt(new Record);
  record->begin(stream, timing_);
  stream.submit_record(record);
  latest_ = std::move(record);
}

Ref<Record> Event::latest() {
  std::lock_guard lock(mutex_);
  return latest_;
}

}  // namespace openreg::sim
