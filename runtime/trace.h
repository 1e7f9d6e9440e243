// Tracing: one subscriber is told of each launch and of its finish.
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
  /// NULL without a subscriber. Tells of the launch.
  static TracedWork* begin(orTraceKind kind, const char* name, int device, uint64_t stream, size_t size = 0,
                           orMemcpyKind copy_kind = orMemcpyDefault) {
    const TraceSubscriber* subscriber = trace_subscriber.load(std::memory_order_acquire);
    if (!subscriber) [[likely]]
      return nullptr;
    return new TracedWork(*subscriber, kind, name, device, stream, size, copy_kind);
  }

  /// For the driver: tells of the finish and deletes the work.
  orObserver observer() { return {&TracedWork::done, this}; }
  static void done(void* work, int64_t start_ns, int64_t end_ns, orError_t result);
  /// The driver did not accept the work, so its observer will not be called.
  void refused(orError_t error);

 private:
  TracedWork(const TraceSubscriber& subscriber, orTraceKind kind, const char* name, int device,
             uint64_t stream, size_t size, orMemcpyKind copy_kind);

  const TraceSubscriber& subscriber_;
  orTraceRecord record_;
};

/// A synchronisation, which the calling thread itself begins and ends.
class SynchronizeTrace {
 public:
  SynchronizeTrace(const char* name, int device, uint64_t stream);
  [[nodiscard]] orError_t finish(orError_t result);

 private:
  TracedWork* work_;
  int64_t start_ns_ = 0;
};

}  // namespace openreg
