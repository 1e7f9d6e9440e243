// Running the kernels of a stream: launched, synchronous and deferred ones.
#include "deferred.h"
#include "error.h"
#include "pause.h"
#include "stream.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

namespace openreg::sim {

/// The streams whose kernels are on the stack of this thread, innermost first.
class Stream::Frame {
 public:
  /// Only a launched kernel can be deferred.
  enum class Kind { kLaunched, kInline };

  Frame(const Stream& stream, Kind kind) : stream_(stream), kind_(kind), outer_(innermost) {
    innermost = this;
  }
  ~Frame() { innermost = outer_; }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  static bool contains(const Stream& stream) {
    for (const Frame* frame = innermost; frame; frame = frame->outer_) {
      if (&frame->stream_ == &stream) return true;
    }
    return false;
  }
  static Frame* top() { return innermost; }

  orError_t defer(Deferred*& deferred) {
    if (kind_ == Kind::kInline) {
      return fail(orErrorNotPermitted,
                  "orKernelDefer: a kernel that runs synchronously or in a graph cannot be deferred");
    }
    if (deferred_) return fail(orErrorNotPermitted, "orKernelDefer: the kernel is already deferred");
    deferred_ = deferred = new Deferred;
    return orSuccess;
  }
  void forbid_deferral() { kind_ = Kind::kInline; }
  std::unique_ptr<Deferred> take_deferred() {
    return std::unique_ptr<Deferred>(std::exchange(deferred_, nullptr));
  }

 private:
  const Stream& stream_;
  Kind kind_;
  Deferred* deferred_ = nullptr;  // owned by the frame and by the handle; the last of both deletes it
  Frame* outer_;
  static thread_local Frame* innermost;
};

thread_local Stream::Frame* Stream::Frame::innermost = nullptr;

bool Stream::running_here() const {
  return Frame::contains(*this);
}

bool Stream::inside_kernel() {
  return Frame::top() != nullptr;
}

orError_t call_kernel(const orKernel& kernel, void* args, char* why, size_t why_size) {
  orError_t result;
  try {
    result = kernel.run(args, why, why_size);
  } catch (...) {
    std::snprintf(why, why_size, "the kernel threw an exception; kernels must not throw");
    return orErrorKernelFailed;
  }
  if (result != orSuccess && why[0] == '\0') {
    std::snprintf(why, why_size, "the kernel returned error %d without a message", static_cast<int>(result));
  }
  return result;
}

namespace {

// Runs a kernel, its release and its observer. Reads the clock only for an observer.
orError_t call_observed(const orKernel& kernel, void* args, const orObserver* observer, char* why,
                        size_t why_size) {
  why[0] = '\0';
  const int64_t start = observer ? now_ns() : 0;
  const orError_t result = call_kernel(kernel, args, why, why_size);
  const int64_t end = observer ? now_ns() : 0;
  if (kernel.release) kernel.release(args);
  if (observer)
    observer->done(observer->user, start, end, result == orSuccess ? orSuccess : orErrorKernelFailed);
  return result;
}

constexpr size_t kWhySize = sizeof(Deferred::why);

}  // namespace

bool Stream::execute_kernel(Operation& operation) {
  const orKernel& kernel = *operation.kernel;
  const orObserver* observer = operation.observer.done ? &operation.observer : nullptr;
  if (operation.ticket <= drop_through_.load(std::memory_order_acquire)) [[unlikely]] {
    if (kernel.release) kernel.release(operation.args);
    if (observer) {
      const int64_t now = now_ns();
      observer->done(observer->user, now, now, orErrorKernelFailed);
    }
    return true;
  }
  char why[kWhySize];
  why[0] = '\0';  // not the rest: this is the path of every kernel
  const int64_t start = observer ? now_ns() : 0;
  orError_t result;
  {
    Frame frame(*this, Frame::Kind::kLaunched);
    result = call_kernel(kernel, operation.args, why, sizeof(why));
    if (std::unique_ptr<Deferred> deferred = frame.take_deferred()) {
      deferred->stream = Ref<Stream>(this);
      deferred->operation = &operation;
      deferred->start_ns = start;
      deferred_.store(true);
      if (wake_at_.load() != kNever) wake_sleepers();
      auto running = Deferred::State::kRunning;
      if (deferred->state.compare_exchange_strong(running, Deferred::State::kReturned)) {
        static_cast<void>(deferred.release());  // finish() deletes it
        return false;
      }
      deferred_.store(false);
      result = deferred->result;
      std::memcpy(why, deferred->why, sizeof(why));
    }
  }
  end_kernel(operation, start, result, why);
  return true;
}

void Stream::end_kernel(Operation& operation, int64_t start_ns, orError_t result, const char* why) {
  const orKernel& kernel = *operation.kernel;
  const int64_t end = operation.observer.done ? now_ns() : 0;
  if (kernel.release) kernel.release(operation.args);
  if (operation.observer.done) {
    operation.observer.done(operation.observer.user, start_ns, end,
                            result == orSuccess ? orSuccess : orErrorKernelFailed);
  }
  if (result != orSuccess) poison(kernel, why);
}

orError_t Stream::defer(Deferred*& deferred) {
  Frame* frame = Frame::top();
  if (!frame) return fail(orErrorNotPermitted, "orKernelDefer: the calling thread is not inside a kernel");
  return frame->defer(deferred);
}

void Stream::forbid_deferral() {
  Frame::top()->forbid_deferral();
}

void Stream::finish(std::unique_ptr<Deferred> deferred, orError_t result, const char* why) {
  deferred->result = result;
  std::snprintf(deferred->why, sizeof(deferred->why), "%s",
                why && *why ? why : "the deferred kernel failed without a message");
  auto running = Deferred::State::kRunning;
  if (deferred->state.compare_exchange_strong(running, Deferred::State::kFinished)) {
    static_cast<void>(deferred.release());  // execute_kernel, which has not returned, deletes it
    return;
  }
  const Ref<Stream> stream = std::move(deferred->stream);
  Operation& operation = *deferred->operation;
  stream->end_kernel(operation, deferred->start_ns, result, deferred->why);
  const uint64_t ticket = operation.ticket;
  stream->queue_.pop();
  stream->deferred_.store(false);
  stream->complete(ticket);
  stream->release_claim();
}

orError_t Stream::run(const orKernel& kernel, void* args, const orObserver* observer) {
  uint64_t ticket = 0;
  for (int attempt = 0; attempt < kWaitSpins; ++attempt) {
    if (begin_inline(ticket)) {
      const orError_t result = run_inline(ticket, kernel, args, observer);
      end_inline(ticket);
      return result;
    }
    if (!finished(submitted())) break;
    pause();  // another thread has completed the last operation but not released the claim
  }
  if (running_here()) return run_inline(0, kernel, args, observer);

  Operation* turn = nullptr;
  ticket = submit([&](Operation& operation) {
    operation.set_turn();
    turn = &operation;
  });
  // Not scheduled: this thread claims the stream, or the thread with the claim sees the turn.
  if (const orError_t error = wait_as(Runner::kTurnOwner, ticket)) {
    withdraw(*turn, ticket);
    return error;
  }
  queue_.pop();
  const orError_t result = run_inline(ticket, kernel, args, observer);
  end_inline(ticket);
  return result;
}

// `ticket`: 0 for a kernel that a kernel of this stream runs.
orError_t Stream::run_inline(uint64_t ticket, const orKernel& kernel, void* args,
                             const orObserver* observer) {
  if (ticket != 0) {
    if (const orError_t error = failure_before(ticket)) return error;
  }
  char why[kWhySize];
  {
    const Frame frame(*this, Frame::Kind::kInline);
    if (call_observed(kernel, args, observer, why, sizeof(why)) == orSuccess) return orSuccess;
  }
  char message[kFailureSize];
  format_failure(message, sizeof(message), kernel, *this, why);
  return fail(orErrorKernelFailed, "%s", message);
}

}  // namespace openreg::sim
