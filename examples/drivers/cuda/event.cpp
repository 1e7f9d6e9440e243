// Another chip: a fence or a semaphore in memory, with a timestamp. A chip without timestamps clears
// OR_CAP_TIMING.
#include "event.h"

#include "capture.h"
#include "device.h"
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

Record::~Record() {
  if (!native_) return;
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
  for (auto& stream : waiting) {
    run_on_host([stream = std::move(stream)] { stream->resume(); });
  }
}

void Record::reset() {
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
  const std::lock_guard lock(mutex_);
  return latest_;
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

orError_t event_create(int index, unsigned flags, orDriverEvent** event) {
  return entry([&] {
    auto made = std::make_shared<Event>(device_at(index), flags);
    made->self = made;
    *event = reinterpret_cast<orDriverEvent*>(made.get());
    return orSuccess;
  });
}

orError_t event_destroy(orDriverEvent* event) {
  return entry([&] {
    const std::shared_ptr<Event> last = std::move(Event::of(event).self);
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
