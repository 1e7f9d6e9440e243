// Tracing: the subscriber is called for each launch, for the return of the launching call and for completion.
// The watchdog observes the same work.
//
// Without a subscriber, tracing costs one atomic load per launch. A launch uses the same subscriber until it
// completes, so subscribers are never freed; there is one for each distinct (callback, user) pair.
#pragma once

#include "openreg/openreg.h"
#include "watched_streams.h"

#include <atomic>

namespace openreg {

struct TraceSubscriber {
  orTraceCallback callback;
  void* user;
  TraceSubscriber* next;  // list of all subscribers
};

/// NULL if no work is observed. With the watchdog and without a subscriber: one that does nothing.
extern std::atomic<const TraceSubscriber*> trace_subscriber;

/// Whether the watchdog observes work.
void watch_traced_work(bool on);

/// A traced operation. The launching call owns it until the driver accepts the operation; then the observer
/// owns it.
class TracedWork {
 public:
  /// Reports the launch. Returns NULL without a subscriber. `function` is a literal, the name of the called
  /// function.
  static TracedWork* begin(const char* function, orTraceKind kind, const char* name, int device,
                           uint64_t stream, size_t size = 0, orMemcpyKind copy_kind = orMemcpyDefault) {
    const TraceSubscriber* subscriber = trace_subscriber.load(std::memory_order_acquire);
    if (!subscriber) [[likely]]
      return nullptr;
    return new TracedWork(*subscriber, function, kind, name, device, stream, size, copy_kind);
  }

  /// Work that only the watchdog observes. Returns NULL without it.
  static TracedWork* begin_watched(const char* function, const char* name, int device, uint64_t stream);

  /// Observer for the driver: reports completion and deletes the object.
  orObserver observer() { return {&TracedWork::done, this}; }
  static void done(void* work, int64_t start_ns, int64_t end_ns, orError_t result);
  /// For an operation that the driver rejected: the driver does not call the observer.
  void rejected(orError_t error);
  /// For operations that begin and end on the calling thread: reports the time from begin() to now.
  void ended(orError_t result);

 private:
  friend class ReturnTrace;
  TracedWork(const TraceSubscriber& subscriber, const char* function, orTraceKind kind, const char* name,
             int device, uint64_t stream, size_t size, orMemcpyKind copy_kind);

  const TraceSubscriber& subscriber_;
  int64_t begun_ns_;
  orTraceRecord record_;
  WatchedWork watched_;
};

/// Reports the return of the call that launched `work` (may be NULL). Construct it before the driver accepts
/// the operation: `work` may be deleted before the call returns.
class ReturnTrace {
 public:
  explicit ReturnTrace(const TracedWork* work) {
    if (work) [[unlikely]]
      copy_record(*work);
  }
  ~ReturnTrace() {
    if (subscriber_) [[unlikely]]
      report_return();
  }
  ReturnTrace(const ReturnTrace&) = delete;
  ReturnTrace& operator=(const ReturnTrace&) = delete;

 private:
  void copy_record(const TracedWork& work);
  void report_return();

  const TraceSubscriber* subscriber_ = nullptr;
  orTraceRecord record_;
};

/// Traces a synchronization, which begins and ends on the calling thread.
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
