// Failures of the kernels of a stream, and of streams that it waits for.
#include "error.h"
#include "failure.h"
#include "pause.h"
#include "state.h"
#include "stream.h"

#include <algorithm>
#include <cstdio>

namespace openreg::sim {

void format_failure(char* message, size_t size, const orKernel& kernel, const Stream& stream,
                    const char* why) {
  std::snprintf(message, size, "kernel '%s' failed on stream %llu of device %d: %s",
                kernel.name ? kernel.name : "", static_cast<unsigned long long>(stream.id()),
                stream.device_index(), why);
}

void Stream::poison(const orKernel& kernel, const char* why) {
  char message[kFailureSize];
  format_failure(message, sizeof(message), kernel, *this, why);
  std::lock_guard lock(failure_mutex_);
  set_failure(Ref<Failure>::adopt(new Failure(message)));
}

void Stream::abort(const char* why) {
  char message[kFailureSize];
  std::snprintf(message, sizeof(message), "stream %llu of device %d was aborted: %s",
                static_cast<unsigned long long>(id_), index_, why);
  {
    std::lock_guard lock(failure_mutex_);
    set_failure(Ref<Failure>::adopt(new Failure(message)));
  }
  const auto abandoned = [&] {
    std::lock_guard lock(submit_mutex_);
    abandoned_through_ = std::max(abandoned_through_, submitted_.load());
    return blocked_on_;
  };
  // A thread that is inside park() has set blocked_on_, and is about to add the waiter.
  for (Ref<Record> record = abandoned(); record && !record->done(); record = abandoned()) {
    if (record->remove_waiter(*this)) {
      unpark();
      return;
    }
    pause();
  }
}

void Stream::set_failure(Ref<Failure> failure) {
  failure_ = std::move(failure);
  unreported_.store(true, std::memory_order_release);
  drop_through_.store(kNever, std::memory_order_release);
}

// Dropped work of the other stream has not written what this stream is about to read.
void Stream::follow_failure(const Ref<Failure>& failure) {
  std::lock_guard lock(failure_mutex_);
  // A thread that reports it sets `reported` before it clears streams, so no stream stays poisoned.
  if (!poisoned() && !failure->reported()) set_failure(failure);
}

Ref<Failure> Stream::current_failure() {
  if (!poisoned()) [[likely]]
    return {};
  std::lock_guard lock(failure_mutex_);
  return poisoned() ? failure_ : Ref<Failure>();
}

void Stream::clear_poison() {
  if (poisoned()) drop_through_.store(submitted_.load(), std::memory_order_release);
}

void Stream::clear_poison_of(const Failure& failure) {
  if (!poisoned()) return;
  std::lock_guard lock(failure_mutex_);
  if (failure_.get() == &failure) clear_poison();
}

// Returns the failure that precedes this operation, also if another thread has already got it.
orError_t Stream::failure_before(uint64_t ticket) {
  if (ticket > drop_through_.load(std::memory_order_acquire)) [[likely]]
    return orSuccess;
  Ref<Failure> failure;
  {
    std::lock_guard lock(failure_mutex_);
    unreported_.store(false);
    clear_poison();
    failure = failure_;
  }
  static_cast<void>(report(*failure));
  return fail(orErrorKernelFailed, "%s", failure->message());
}

orError_t Stream::take_failure(const Failure* which) {
  if (!unreported_.load(std::memory_order_acquire)) [[likely]]
    return orSuccess;
  Ref<Failure> failure;
  {
    std::lock_guard lock(failure_mutex_);
    if (!unreported_.load() || (which && which != failure_.get())) return orSuccess;
    unreported_.store(false);
    clear_poison();
    failure = failure_;
  }
  return report(*failure);
}

orError_t Stream::pending_failure(const Failure* which) {
  if (!unreported_.load(std::memory_order_acquire)) [[likely]]
    return orSuccess;
  std::lock_guard lock(failure_mutex_);
  if (!unreported_.load() || (which && which != failure_.get())) return orSuccess;
  return fail(orErrorKernelFailed, "%s", failure_->message());
}

orError_t report(Failure& failure) {
  const bool is_new = failure.report();
  for (int device = 0; device < device_count(); ++device) {
    for (const Ref<Stream>& stream : device_at(device).streams()) stream->clear_poison_of(failure);
  }
  return is_new ? fail(orErrorKernelFailed, "%s", failure.message()) : orSuccess;
}

}  // namespace openreg::sim
