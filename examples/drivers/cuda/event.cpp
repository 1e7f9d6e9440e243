// Another chip: a fence or a semaphore in memory, with a timestamp. A chip without timestamps clears
// OR_CAP_TIMING.
#include "event.h"

#include "capture.h"
#include "device.h"
#include "host_work.h"
#include "stream.h"

#include <utility>

namespace nv {

FailureWords::~FailureWords() {
  if (!words_) return;
  const Current current(*device_);
  static_cast<void>(cuda.host_free(words_));
}

orError_t FailureWords::allocate(const Device& device) {
  void* memory = nullptr;
  NV_RETURN_IF_ERROR(NV_CALL(host_alloc, &memory, 2 * sizeof(uint64_t), kHostPortable));
  words_ = static_cast<uint64_t*>(memory);
  words_[0] = words_[1] = 0;
  device_ = &device;
  return orSuccess;
}

std::string FailureWords::take() {
  const uint64_t name = __atomic_exchange_n(words_, 0, __ATOMIC_ACQ_REL);
  if (!name) return {};
  return std::string("function '") + reinterpret_cast<const char*>(name) + "' failed on device " +
         std::to_string(device_->index) + ": index " + std::to_string(static_cast<int64_t>(words_[1])) +
         " is out of range";
}

// ---- Records

Record::Record(std::shared_ptr<SharedEvent> shared, bool ours)
    : device_(shared->device()), timing_(false), native_(shared->native()), shared_(std::move(shared)) {
  if (!ours) return;
  shared_->hold();
  holds_ = true;
}

Record::~Record() {
  if (holds_) shared_->release();
  if (!native_ || shared_) return;
  const std::lock_guard lock(device_.mutex);
  device_.free_events[timing_ ? 0 : 1].push_back(native_);
}

orError_t Record::create() {
  {
    const std::lock_guard lock(device_.mutex);
    auto& free = device_.free_events[timing_ ? 0 : 1];
    if (!free.empty()) {
      native_ = free.back();
      free.pop_back();
      return orSuccess;
    }
  }
  const Current current(device_);
  return NV_CALL(event_create, &native_, timing_ ? 0u : unsigned{kEventDisableTiming});
}

bool Record::submitted_or_resume(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(mutex_);
  if (submitted()) return true;
  waiting_.push_back(stream);
  return false;
}

void Record::set_submitted(std::shared_ptr<Failure> failure, std::shared_ptr<FailureWords> words) {
  failure_ = std::move(failure);
  words_ = std::move(words);
  std::vector<std::shared_ptr<Stream>> waiting;
  {
    const std::lock_guard lock(mutex_);
    submitted_.store(true, std::memory_order_release);
    waiting.swap(waiting_);
  }
  submitted_.notify_all();
  if (holds_.exchange(false)) shared_->release();  // CUDA has the record
  for (auto& stream : waiting) {
    run_on_host([stream = std::move(stream)] { stream->resume(); });
  }
}

void Record::reset() {
  if (shared_ && !holds_.exchange(true)) shared_->hold();
  submitted_.store(false, std::memory_order_relaxed);
  failure_ = nullptr;
  words_ = nullptr;
}

orError_t Record::wait() const {
  submitted_.wait(false, std::memory_order_acquire);
  const Current current(device_);
  return NV_CALL(event_synchronize, native_);
}

bool Record::done() const {
  const Current current(device_);
  return submitted() && cuda.event_query(native_) == kSuccess;
}

orError_t Record::report() const {
  if (failure_ && !failure_->reported.exchange(true)) {
    return fail(orErrorKernelFailed, "%s", failure_->text.c_str());
  }
  const std::string message = words_ ? words_->take() : "";
  return message.empty() ? orSuccess : fail(orErrorKernelFailed, "%s", message.c_str());
}

// ---- Events

std::shared_ptr<Record> Event::latest() {
  std::shared_ptr<Record> record;
  {
    const std::lock_guard lock(mutex_);
    record = latest_;
  }
  if (!shared_ || !record->submitted() || !shared_->held_elsewhere()) return record;
  auto theirs = std::make_shared<Record>(shared_, false);
  run_on_host([theirs, shared = shared_] {
    shared->wait_for_others();
    theirs->set_submitted(nullptr, nullptr);
  });
  return theirs;
}

std::shared_ptr<CapturePoint> Event::captured() {
  const std::lock_guard lock(mutex_);
  return captured_;
}

// The previous record is reused if the event has the only reference: CUDA's own waits do not need it.
orError_t Event::renew(std::shared_ptr<Record>& record) {
  const std::lock_guard lock(mutex_);
  captured_ = nullptr;
  if (latest_.use_count() == 1) {
    latest_->reset();
  } else if (shared_) {
    latest_ = std::make_shared<Record>(shared_, true);
  } else {
    auto made = std::make_shared<Record>(device_, !(flags_ & orEventDisableTiming));
    NV_RETURN_IF_ERROR(made->create());
    latest_ = std::move(made);
  }
  record = latest_;
  return orSuccess;
}

void Event::set_captured(std::shared_ptr<CapturePoint> point) {
  const std::lock_guard lock(mutex_);
  captured_.swap(point);
}

// Another process may record a shared event before this one does, so it has a record from the beginning.
orDriverEvent* Event::create(Device& device, unsigned flags, std::shared_ptr<SharedEvent> shared) {
  auto made = std::make_shared<Event>(device, flags, std::move(shared));
  if (made->shared_) {
    made->latest_ = std::make_shared<Record>(made->shared_, false);
    made->latest_->set_submitted(nullptr, nullptr);
  }
  made->self = made;
  return reinterpret_cast<orDriverEvent*>(made.get());
}

orError_t event_create(int index, unsigned flags, orDriverEvent** event) {
  return entry([&]() -> orError_t {
    Device& device = device_at(index);
    std::shared_ptr<SharedEvent> shared;
    if (flags & orEventInterprocess) {
      shared = std::make_shared<SharedEvent>(device);
      NV_RETURN_IF_ERROR(shared->create());
    }
    *event = Event::create(device, flags, std::move(shared));
    return orSuccess;
  });
}

orError_t event_destroy(orDriverEvent* event) {
  return entry([&] {
    const std::shared_ptr<Event> last = std::move(Event::of(event).self);
    if (last->shared()) last->shared()->withdraw();
    return orSuccess;
  });
}

orError_t event_record(orDriverEvent* event, orDriverStream* stream) {
  return entry([&] { return Stream::of(stream).record(Event::of(event)); });
}

orError_t event_query(orDriverEvent* given) {
  return entry([&]() -> orError_t {
    Event& event = Event::of(given);
    if (const auto point = event.captured()) return Capture::reject_event(*point, "querying an event");
    if (event.shared() && event.shared()->held_elsewhere()) return orErrorNotReady;
    const std::shared_ptr<Record> record = event.latest();
    if (!record) return orSuccess;
    if (!record->submitted()) return orErrorNotReady;
    const Current current(record->device());
    return NV_CALL(event_query, record->native());
  });
}

orError_t event_synchronize(orDriverEvent* given) {
  return entry([&]() -> orError_t {
    Event& event = Event::of(given);
    if (const auto point = event.captured()) return Capture::reject_event(*point, "synchronizing an event");
    const std::shared_ptr<Record> record = event.latest();
    if (!record) return orSuccess;
    if (!record->submitted() && record->recorded_on && inside_kernel_of(*record->recorded_on)) {
      return fail(orErrorNotPermitted, "a kernel cannot wait for an event that was recorded behind it");
    }
    NV_RETURN_IF_ERROR(record->wait());
    return record->report();
  });
}

orError_t event_elapsed(orDriverEvent* start, orDriverEvent* end, float* milliseconds) {
  return entry([&]() -> orError_t {
    const std::shared_ptr<Record> first = Event::of(start).latest(), second = Event::of(end).latest();
    if (!first || !second) {
      return fail(orErrorInvalidValue, "the %s event was never recorded", first ? "end" : "start");
    }
    if (!first->submitted() || !second->submitted()) return orErrorNotReady;
    const Current current(first->device());
    return NV_CALL(event_elapsed, milliseconds, first->native(), second->native());
  });
}

}  // namespace nv
