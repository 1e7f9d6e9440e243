#include "event.h"

#include "capture.h"
#include "ipc_event_watcher.h"
#include "platform.h"
#include "schedule.h"
#include "shared_event.h"
#include "stream.h"

namespace openreg::sim {

Record::Record() = default;
Record::~Record() = default;

void Record::begin(Stream& new_stream, bool timing) {
  stream = Ref<Stream>(&new_stream);
  ticket = 0;
  time_ns = 0;
  failure = {};
  captured = {};
  timing_ = timing;
  done_.store(false, std::memory_order_relaxed);
}

void Record::complete(Ref<Failure> new_failure) {
  failure = std::move(new_failure);
  if (timing_) time_ns = now_ns();
  Stream* waiter;
  {
    std::lock_guard lock(mutex_);
    done_.store(true, std::memory_order_release);
    waiter = std::exchange(waiters_, nullptr);
  }
  if (shared && !is_of_other_process()) [[unlikely]]
    shared->finish_record(number);
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

bool Record::remove_waiter(Stream& stream) {
  Ref<Stream> removed;  // released outside the lock
  std::lock_guard lock(mutex_);
  for (Stream** link = &waiters_; *link; link = &(*link)->next_waiter) {
    if (*link != &stream) continue;
    *link = std::exchange(stream.next_waiter, nullptr);
    removed = Ref<Stream>::adopt(&stream);
    return true;
  }
  return false;
}

Ref<Record> Record::of_other_process(Ref<SharedEvent> shared, uint64_t number, int process) {
  Ref<Record> record = Ref<Record>::adopt(new Record);
  record->shared = std::move(shared);
  record->number = number;
  record->process = process;
  return record;
}

bool Record::is_remote_finished() const {
  return shared->is_done(number) || !shared->is_alive(process);
}

void Record::wait_for_other_process() const {
  constexpr int64_t kLivenessCheckNs = 5'000'000;
  shared->begin_watching();
  for (;;) {
    const platform::WatchedWord bell = {&shared->doorbell(), shared->doorbell().load()};
    if (is_remote_finished()) break;
    platform::sleep_on(&bell, 1, kLivenessCheckNs);
  }
  shared->end_watching();
}

Event::Event(unsigned flags, Ref<SharedEvent> shared)
    : timing_(!(flags & orEventDisableTiming)),
      external_(flags & orEventExternal),
      shared_(std::move(shared)) {}
Event::~Event() = default;

void Event::set_captured(Ref<CapturePoint> point) {
  Ref<Record> record = Ref<Record>::adopt(new Record);
  record->captured = std::move(point);
  std::lock_guard lock(mutex_);
  std::swap(latest_, record);
}

void Event::record(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (latest_ && latest_->unique() && !shared_) {
    latest_->begin(stream, timing_);
    stream.submit_record(latest_);
    return;
  }
  Ref<Record> before;
  Ref<Record> record = make_record(stream, before);
  if (before) submit_wait(stream, std::move(before));
  stream.submit_record(record);
  latest_ = std::move(record);
}

Ref<Record> Event::make_record(Stream& stream, Ref<Record>& before) {
  Ref<Record> record = Ref<Record>::adopt(new Record);
  record->begin(stream, timing_);
  if (shared_) {
    record->shared = shared_;
    record->process = platform::process_id();
    SharedEvent::Latest earlier;
    record->number = shared_->begin_record(earlier);
    // The ring slot of this record may still belong to an earlier record that a stream or thread waits for.
    if (earlier.number != 0 && !shared_->is_done(earlier.number)) {
      before = Record::of_other_process(shared_, earlier.number, earlier.process);
    }
  }
  return record;
}

void submit_wait(Stream& stream, Ref<Record> record) {
  if (record->is_of_other_process()) IpcEventWatcher::get().add(record);
  stream.submit_wait(std::move(record));
}

Ref<Record> Event::latest() {
  std::lock_guard lock(mutex_);
  return latest_locked();
}

Ref<Record> Event::latest_locked() {
  if (!shared_) [[likely]]
    return latest_;
  const SharedEvent::Latest latest = shared_->latest();
  if (latest.number == 0) return {};
  if (latest_ && latest_->number == latest.number) return latest_;
  if (shared_->is_done(latest.number) || !shared_->is_alive(latest.process)) return {};
  return Record::of_other_process(shared_, latest.number, latest.process);
}

}  // namespace openreg::sim
