// Streams: the entries, waiting, and failures. The queue is in stream_queue.cpp.
//
// Another chip: a command queue of the chip. A chip that can drop its own queue behind a failed kernel needs
// no held work.
#include "stream.h"

#include "capture.h"

#include <chrono>
#include <utility>

namespace nv {

orError_t Stream::create(Device& device, int priority, uint64_t id, std::shared_ptr<Stream>& stream) {
  const Current current(device);
  auto made = std::make_shared<Stream>(device, id);
  NV_RETURN_IF_ERROR(NV_CALL(stream_create, &made->native_, unsigned{kStreamNonBlocking}, priority));
  stream = std::move(made);
  return orSuccess;
}

Stream::~Stream() {
  const Current current(device_);
  if (native_) static_cast<void>(cuda.stream_destroy(native_));
  if (workspace_) Workspace::put_back(std::move(workspace_));
}

Workspace& Stream::workspace() {
  if (!workspace_) workspace_ = Workspace::take(device_, native_);
  return *workspace_;
}

const std::shared_ptr<FailureWords>& Stream::failure_words() {
  if (!words_) {
    auto made = std::make_shared<FailureWords>();
    if (made->allocate(device_) == orSuccess) words_ = std::move(made);
  }
  return words_;
}

void Stream::watch(const std::shared_ptr<FailureWords>& words) {
  const std::lock_guard lock(mutex_);
  for (const auto& known : watched_) {
    if (known == words) return;
  }
  watched_.push_back(words);
}

// ---- Waiting

orError_t Stream::wait() {
  if (inside_kernel_of(*this)) {
    return fail(orErrorNotPermitted, "a kernel cannot wait for its own stream, %llu",
                static_cast<unsigned long long>(id_));
  }
  const Current current(device_);
  {
    std::unique_lock lock(mutex_);
    const uint64_t last = queued_;  // other threads may keep submitting
    const auto done = [&] { return finished_ >= last; };
    // CUDA does not reach kernels any more if the device is lost.
    while (!changed_.wait_for(lock, std::chrono::seconds(1), done)) {
      const CUresult result = cuda.stream_query(native_);
      if (result != kSuccess && result != kErrorNotReady) return fail_cuda(result, "cuStreamQuery");
    }
  }
  return NV_CALL(stream_synchronize, native_);
}

orError_t Stream::report() {
  const std::lock_guard lock(mutex_);
  const bool reported = failure_ && !failure_->reported.exchange(true);
  const std::shared_ptr<Failure> failure = std::move(failure_);
  update();
  if (reported) return fail(orErrorKernelFailed, "%s", failure->text.c_str());
  std::string message = words_ ? words_->take() : "";
  for (const auto& words : watched_) {
    if (message.empty()) message = words->take();
  }
  return message.empty() ? orSuccess : fail(orErrorKernelFailed, "%s", message.c_str());
}

bool Stream::idle() {
  const Current current(device_);
  const std::lock_guard lock(mutex_);
  return queued_ == finished_ && cuda.stream_query(native_) == kSuccess;
}

bool Stream::only_runs_this_kernel() {
  const std::lock_guard lock(mutex_);
  return inside_kernel_of(*this) && held_.empty();
}

void Stream::poison(std::string text) {
  failure_ = std::make_shared<Failure>();
  failure_->text = std::move(text);
}

void Stream::update() {
  if (failure_ && failure_->reported) failure_ = nullptr;
  direct_ = held_.empty() && !kernel_pending_ && !failure_ && !capture_;
}

std::shared_ptr<Capture> Stream::capture() {
  const std::lock_guard lock(mutex_);
  return capture_;
}

void Stream::set_capture(std::shared_ptr<Capture> capture) {
  const std::lock_guard lock(mutex_);
  capture_.swap(capture);
  update();
}

void Stream::destroy() {
  if (const auto captured = capture()) captured->abandon(*this);
  destroyed_ = true;
  reap(device_);
}

// ---- Entries of the table

orError_t stream_create(int index, int priority, uint64_t id, orDriverStream** stream) {
  return entry([&]() -> orError_t {
    Device& device = device_at(index);
    std::shared_ptr<Stream> made;
    NV_RETURN_IF_ERROR(Stream::create(device, priority, id, made));
    *stream = reinterpret_cast<orDriverStream*>(made.get());
    const std::lock_guard lock(device.mutex);
    device.streams.push_back(std::move(made));
    return orSuccess;
  });
}

orError_t stream_destroy(orDriverStream* stream) {
  return entry([&] {
    Stream::of(stream).destroy();
    return orSuccess;
  });
}

orError_t stream_query(orDriverStream* given) {
  return entry([&]() -> orError_t {
    Stream& stream = Stream::of(given);
    if (const auto capture = stream.capture()) return capture->reject("querying a stream");
    return stream.query();
  });
}

orError_t stream_synchronize(orDriverStream* given) {
  return entry([&]() -> orError_t {
    Stream& stream = Stream::of(given);
    if (const auto capture = stream.capture()) return capture->reject("synchronizing a stream");
    NV_RETURN_IF_ERROR(stream.wait());
    return stream.report();
  });
}

orError_t stream_wait_event(orDriverStream* stream, orDriverEvent* event) {
  return entry([&] { return Stream::of(stream).wait_for(Event::of(event)); });
}

orError_t stream_native_handle(orDriverStream* stream, void** handle) {
  *handle = Stream::of(stream).native();
  return orSuccess;
}

}  // namespace nv
