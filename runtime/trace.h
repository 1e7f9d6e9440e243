// Tracing: one subscriber is told of each launch, of its return and of its finish.
//
// Without a subscriber a launch costs one atomic load. A launch that began under a subscriber keeps it until
// its finish, so subscribers are never freed; there are as many as distinct (callback, user) pairs.
#pragma once

#include "openreg/openreg.h"

#include <atomic>

namespace openreg {

struct TraceSubscriber {
  orTraceCallback callback;
  void* user;
  TraceSubscriber* next;  // all that ever were
};

extern std::atomic<const TraceSubscriber*> trace_subscriber;

/// A piece of work that the subscriber is told of. Owned by the launch until the driver has accepted it, and
/// by the driver's observer from then on.
class TracedWork {
 public:
  /// NULL without a subscriber. Tells of the launch. `function` is a literal, the name of the function
  /// called.
  static TracedWork* begin(const char* function, orTraceKind kind, const char* name, int device,
                           uint64_t stream, size_t size = 0, orMemcpyKind copy_kind = orMemcpyDefault) {
    const TraceSubscriber* subscriber = trace_subscriber.load(std::memory_order_acquire);
    if (!subscriber) [[likely]]
      return nullptr;
    return new TracedWork(*subscriber, function, kind, name, device, stream, size, copy_kind);
  }

  /// For the driver: tells of the finish and deletes the work.
  orObserver observer() { return {&TracedWork::done, this}; }
  static void done(void* work, int64_t start_ns, int64_t end_ns, orError_t result);
  /// The driver did not accept the work, so its observer will not be called.
  void refused(orError_t error);
  /// For work that the calling thread itself begins and ends: from begin() to now.
  void ended(orError_t result);

 private:
  friend class ReturnTrace;
  TracedWork(const TraceSubscriber& subscriber, const char* function, orTraceKind kind, const char* name,
             int device, uint64_t stream, size_t size, orMemcpyKind copy_kind);

  const TraceSubscriber& subscriber_;
  int64_t begun_ns_;
  orTraceRecord record_;
};

/// Tells of the return of the call that launched `work` (may be NULL). Made while the work is still the
/// caller's: it may be gone when the call returns.
class ReturnTrace {
 public:
  explicit ReturnTrace(const TracedWork* work) {
    if (work) [[unlikely]]
      remember(*work);
  }
  ~ReturnTrace() {
    if (subscriber_) [[unlikely]]
      tell();
  }
  ReturnTrace(const ReturnTrace&) = delete;
  ReturnTrace& operator=(const ReturnTrace&) = delete;

 private:
  void remember(const TracedWork& work);
  void tell();

  const TraceSubscriber* subscriber_ = nullptr;
  orTraceRecord record_;
};

/// A synchronization, which the calling thread itself begins and ends.
class SynchronizeTrace {
 public:
  SynchronizeTrace(const char* function, const char* name, int device, uint64_t stream)
      : work_(TracedWork::begin(function, orTraceSynchronize, name, device, stream)) {}
  [[nodiscard]] orError_t finish(orError_t result) {
    if (work_) [[unlikely]]
      work_->ended(result);
    return result;
  }

 private:
  TracedWork* work_;
};

}  // namespace openreg
