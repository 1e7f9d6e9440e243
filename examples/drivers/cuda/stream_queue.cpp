// The queue of a stream; see Note [Held work] in stream.h.
//
// Another chip: needed if its queues cannot wait for host code, or cannot drop what is behind a failure.
#include "capture.h"
#include "stream.h"

#include <utility>

namespace nv {
namespace {

// Tells an observer when work begins and ends, on a thread of CUDA.
struct Observation {
  orObserver observer;
  int64_t start_ns = 0;
  bool rejected = false;  // CUDA did not accept the work, and the caller has the error

  static void begin(void* user) { static_cast<Observation*>(user)->start_ns = now_ns(); }
  static void end(void* user) {
    const std::unique_ptr<Observation> seen(static_cast<Observation*>(user));
    if (!seen->rejected) seen->observer.done(seen->observer.user, seen->start_ns, now_ns(), orSuccess);
  }
};

void kernel_reached(void* user) {
  const std::unique_ptr<std::shared_ptr<Stream>> stream(static_cast<std::shared_ptr<Stream>*>(user));
  run_on_host([stream = *stream] { stream->run_kernels(); });
}

}  // namespace

orError_t Stream::query() {
  const Current current(device_);
  const std::lock_guard lock(mutex_);
  return queued_ == finished_ ? NV_CALL(stream_query, native_) : orErrorNotReady;
}

// ---- Submission

orError_t Stream::submit_indirect(std::unique_lock<std::mutex>& lock, Work work, const WorkInfo& info,
                                  const orObserver* observer) {
  if (const std::shared_ptr<Capture> capture = capture_) {
    lock.unlock();
    if (observer) return capture->reject("launching work with an observer");
    return capture->add_work(*this, work, info);
  }
  Item item;
  item.work = std::move(work);
  if (observer) item.observer = *observer;
  bool runnable = false;
  const orError_t error = enqueue(std::move(item), runnable);
  if (runnable) run_on_host([self = shared_from_this()] { self->run_kernels(); });
  return error;
}

orError_t Stream::submit_kernel(HostKernel kernel, const orObserver* observer) {
  const Current current(device_);
  if (const auto capture = this->capture()) {
    if (observer) return capture->reject("launching a kernel with an observer");
    return capture->add_kernel(*this, std::move(kernel));
  }
  std::vector<Item> items(1);
  items[0].kind = Item::Kind::kKernel;
  items[0].kernel = std::move(kernel);
  if (observer) items[0].observer = *observer;
  return submit_items(std::move(items));
}

orError_t Stream::submit_items(std::vector<Item> items) {
  const Current current(device_);
  orError_t error = orSuccess;
  bool runnable = false;
  const std::lock_guard lock(mutex_);
  for (Item& item : items) {
    if ((error = enqueue(std::move(item), runnable)) != orSuccess) break;
  }
  if (runnable) run_on_host([self = shared_from_this()] { self->run_kernels(); });
  return error;
}

orError_t Stream::record(Event& event) {
  if (const auto capture = this->capture()) return capture->record(*this, event);
  std::vector<Item> items(1);
  items[0].kind = Item::Kind::kRecord;
  NV_RETURN_IF_ERROR(event.renew(items[0].record));
  items[0].record->recorded_on = this;
  return submit_items(std::move(items));
}

orError_t Stream::wait_for(Event& event) {
  const auto capture = this->capture();
  const auto point = event.captured();
  if (point) return point->capture->wait(*this, *point, capture);
  if (capture) return capture->wait_external(*this, event);
  std::vector<Item> items(1);
  items[0].kind = Item::Kind::kWait;
  items[0].record = event.latest();
  return items[0].record ? submit_items(std::move(items)) : orSuccess;
}

// ---- With the lock

orError_t Stream::enqueue(Item item, bool& runnable) {
  const bool waits = item.kind == Item::Kind::kWait && !item.record->submitted();
  if (held_.empty() && !kernel_pending_ && !waits) {
    const bool kernel = item.kind == Item::Kind::kKernel;
    if (kernel) ++queued_;
    const orError_t error = issue(std::move(item), runnable);
    if (kernel && error) {
      current_ = {};
      kernel_pending_ = false;
      ++finished_;
    }
    update();
    return error;
  }
  held_.push_back(std::move(item));
  ++queued_;
  if (!kernel_pending_ && held_.size() == 1) advance(runnable);
  update();
  return orSuccess;
}

// Gives the item to CUDA, or starts the kernel.
orError_t Stream::issue(Item item, bool& runnable) {
  switch (item.kind) {
    case Item::Kind::kKernel:
      return start_kernel(std::move(item), runnable);
    case Item::Kind::kRecord: {
      native_idle_ = false;
      const orError_t error = NV_CALL(event_record, item.record->native(), native_);
      item.record->set_submitted(poisoned() ? failure_ : nullptr, words_);
      return error;
    }
    case Item::Kind::kWait:
      return issue_wait(*item.record);
    case Item::Kind::kWork:
      break;
  }
  if (!poisoned()) return issue_work(item);
  if (!item.observer.done) return orSuccess;
  ++queued_;
  return start_kernel(std::move(item), runnable);  // only to call the observer
}

orError_t Stream::issue_work(const Item& item) {
  native_idle_ = false;
  if (!item.observer.done) return item.work(*this);
  auto seen = std::make_unique<Observation>();
  seen->observer = item.observer;
  NV_RETURN_IF_ERROR(NV_CALL(launch_host, native_, &Observation::begin, seen.get()));
  const orError_t error = item.work(*this);
  seen->rejected = error != orSuccess;
  const orError_t ended = NV_CALL(launch_host, native_, &Observation::end, seen.get());
  static_cast<void>(seen.release());  // CUDA has it, also if the second call failed
  return error ? error : ended;
}

// A stream that waits for an event behind an unreported failure fails, too.
orError_t Stream::issue_wait(const Record& record) {
  if (!poisoned() && record.failure() && !record.failure()->reported) failure_ = record.failure();
  native_idle_ = false;
  return NV_CALL(stream_wait_event, native_, record.native(), 0u);
}

// The item counts as queued. It is finished by run_kernels.
orError_t Stream::start_kernel(Item item, bool& runnable) {
  kernel_pending_ = true;
  current_ = std::move(item);
  if (native_idle_) {
    runnable = true;
    return orSuccess;
  }
  auto self = std::make_unique<std::shared_ptr<Stream>>(shared_from_this());
  const orError_t error = NV_CALL(launch_host, native_, &kernel_reached, self.get());
  if (!error) static_cast<void>(self.release());
  return error;
}

// Issues held items, until a kernel or a record that is not submitted stops it.
void Stream::advance(bool& runnable) {
  while (!held_.empty() && !kernel_pending_) {
    Item& front = held_.front();
    if (front.kind == Item::Kind::kWait && !front.record->submitted_or_resume(shared_from_this())) break;
    Item item = std::move(front);
    held_.pop_front();
    const bool kernel = item.kind == Item::Kind::kKernel;
    // The call that submitted the work has returned, so its error becomes a failure of the stream.
    if (issue(std::move(item), runnable) != orSuccess) {
      poison(last_message());
      runnable = kernel_pending_;  // to release the kernel
    }
    if (!kernel) ++finished_;
  }
  update();
  changed_.notify_all();
}

// ---- On a thread of the executor

void Stream::run_current(std::unique_lock<std::mutex>& lock) {
  Item item = std::exchange(current_, {});
  const bool dropped = poisoned();
  native_idle_ = true;
  lock.unlock();
  const int64_t start = now_ns();
  std::string failure = run_kernel(*this, item.kernel, dropped);
  if (item.observer.done) {
    const bool failed = dropped || !failure.empty();
    item.observer.done(item.observer.user, start, now_ns(), failed ? orErrorKernelFailed : orSuccess);
  }
  item = {};  // destroyed without the lock
  lock.lock();
  if (!failure.empty()) poison(std::move(failure));
  kernel_pending_ = false;
  ++finished_;
}

void Stream::run_kernels() {
  const Current current(device_);
  const auto self = shared_from_this();
  std::unique_lock lock(mutex_);
  for (bool runnable = true; runnable;) {
    runnable = false;
    run_current(lock);
    advance(runnable);
  }
}

void Stream::resume() {
  const Current current(device_);
  bool runnable = false;
  {
    const std::lock_guard lock(mutex_);
    if (!kernel_pending_) advance(runnable);
  }
  if (runnable) run_kernels();
}

}  // namespace nv
