#include "trace.h"

#include "error.h"
#include "runtime.h"
#include "watchdog.h"

#include <chrono>
#include <mutex>

namespace openreg {

std::atomic<const TraceSubscriber*> trace_subscriber{nullptr};

namespace {

constexpr TraceSubscriber kNoSubscriber = {[](const orTraceRecord*, void*) {}, nullptr, nullptr};

std::mutex subscribe_mutex;  // guards the rest, and changes of trace_subscriber
TraceSubscriber* all_subscribers = nullptr;
const TraceSubscriber* subscribed = nullptr;
bool watched = false;

void update_subscriber() {
  trace_subscriber.store(subscribed ? subscribed
                         : watched  ? &kNoSubscriber
                                    : nullptr,
                         std::memory_order_release);
}

bool is_work(orTraceKind kind) {
  return kind == orTraceKernel || kind == orTraceMemcpy || kind == orTraceMemset || kind == orTraceHostFunc;
}

std::atomic<uint64_t> next_correlation{1};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

const TraceSubscriber* find_or_add(orTraceCallback callback, void* user) {
  for (TraceSubscriber* known = all_subscribers; known; known = known->next) {
    if (known->callback == callback && known->user == user) return known;
  }
  all_subscribers = new TraceSubscriber{callback, user, all_subscribers};
  return all_subscribers;
}

}  // namespace

TracedWork::TracedWork(const TraceSubscriber& subscriber, const char* function, orTraceKind kind,
                       const char* name, int device, uint64_t stream, size_t size, orMemcpyKind copy_kind)
    : subscriber_(subscriber),
      begun_ns_(now_ns()),
      record_{sizeof(orTraceRecord),
              kind,
              orTraceLaunched,
              name ? name : "",
              device,
              stream,
              next_correlation.fetch_add(1, std::memory_order_relaxed),
              0,
              0,
              size,
              copy_kind,
              orSuccess,
              function} {
  if (is_work(kind) && WatchedStreams::on()) [[unlikely]] {
    ensure_watchdog_thread();
    watched_ = WatchedStreams::instance().submitted(function, name, device, stream);
  }
  subscriber_.callback(&record_, subscriber_.user);
}

TracedWork* TracedWork::begin_watched(const char* function, const char* name, int device, uint64_t stream) {
  if (!WatchedStreams::on()) return nullptr;
  return new TracedWork(kNoSubscriber, function, orTraceKernel, name, device, stream, 0, orMemcpyDefault);
}

void watch_traced_work(bool on) {
  std::lock_guard lock(subscribe_mutex);
  watched = on;
  update_subscriber();
}

void TracedWork::done(void* work, int64_t start_ns, int64_t end_ns, orError_t result) {
  auto* self = static_cast<TracedWork*>(work);
  if (self->watched_.session != 0) [[unlikely]]
    WatchedStreams::instance().finished(self->watched_);
  self->record_.phase = orTraceFinished;
  self->record_.start_ns = start_ns;
  self->record_.end_ns = end_ns;
  self->record_.result = result;
  self->subscriber_.callback(&self->record_, self->subscriber_.user);
  delete self;
}

void TracedWork::rejected(orError_t error) {
  const int64_t now = now_ns();
  done(this, now, now, error);
}

void TracedWork::ended(orError_t result) {
  done(this, begun_ns_, now_ns(), result);
}

void ReturnTrace::copy_record(const TracedWork& work) {
  subscriber_ = &work.subscriber_;
  record_ = work.record_;
  record_.start_ns = work.begun_ns_;
}

void ReturnTrace::report_return() {
  record_.phase = orTraceReturned;
  record_.end_ns = now_ns();
  subscriber_->callback(&record_, subscriber_->user);
}

}  // namespace openreg

using namespace openreg;

extern "C" {

orError_t orTraceSubscribe(orTraceCallback callback, void* user) {
  if (!callback) return fail(orErrorInvalidValue, "orTraceSubscribe: callback is NULL");
  return with_runtime({EntryPoint::orTraceSubscribe}, [&](Runtime&) -> orError_t {
    std::lock_guard lock(subscribe_mutex);
    if (subscribed) {
      return fail(orErrorNotPermitted,
                  "a trace subscriber exists already; only one is possible: call orTraceUnsubscribe first");
    }
    subscribed = find_or_add(callback, user);
    update_subscriber();
    return orSuccess;
  });
}

orError_t orTraceUnsubscribe(void) {
  return with_runtime({EntryPoint::orTraceUnsubscribe}, [&](Runtime&) -> orError_t {
    std::lock_guard lock(subscribe_mutex);
    if (!subscribed) {
      return fail(orErrorNotPermitted, "there is no trace subscriber to unsubscribe");
    }
    subscribed = nullptr;
    update_subscriber();
    return orSuccess;
  });
}

}  // extern "C"
