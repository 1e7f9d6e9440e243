// A stream: a queue of operations, run in order by the thread that has claimed the stream.
//
// Note [Claims]
// At most one thread runs the operations of a stream at a time: the thread that set its state to running. It
// is a worker of the executor, or a host thread that waits for the stream and runs the work. States:
//   idle     no operation is queued
//   watched  idle, and a worker is polling the state: a submission need not notify the executor
//   ready    operations are queued and the stream is in the executor's queue; any thread may claim it
//   running  claimed
//   parked   the next operation waits for a record, which makes the stream ready; no thread may claim
//   offered  the next operation is a turn; only its owner may claim
// A submission to an idle or watched stream makes it ready. A submission to a running, parked or offered
// stream leaves the operation to the thread that has the claim. That thread changes the state first and then
// checks the queue; a submission changes the queue first and then checks the state. So no operation is
// missed.
//
// Note [Tickets]
// Every operation has a ticket, one more than the previous ticket. completed >= ticket means that the
// operation is finished. Work that runs immediately on the calling thread takes a ticket without entering the
// queue.
//
// Note [Turns]
// run() calls its kernel on the calling thread, because the kernel uses the thread-local state and the stack
// of that thread. On an idle stream the kernel runs immediately. Otherwise run() queues a turn and waits, so
// its position is fixed at the call, and later submissions of other threads cannot delay it. The waiting
// owner runs the operations in front of its turn, as any waiting host thread does. Another thread that
// reaches the turn offers the stream to the owner and stops. While the owner waits, it runs only operations
// that its turn depends on, so a turn does not add a cycle to the dependencies. An owner that cannot wait (a
// kernel that the stream depends on) withdraws its turn; the exchange of Operation::turn decides whether the
// other thread skips the turn or the owner removes it.
//
// Lifetime: reference counted. The handle, the queue of the executor, the record that the stream is parked
// on, and the records made on the stream hold references. A stream with unfinished work always has one of
// these.
#pragma once

#include "event.h"
#include "launch_pattern.h"
#include "openreg/driver.h"
#include "operation.h"
#include "ref.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace openreg::sim {

class Capture;
class Device;
struct Deferred;

class Stream : public Counted<Stream> {
 public:
  Stream(Device& device, int index, int priority, uint64_t id);
  ~Stream();

  // ---- Submission. May throw std::bad_alloc; then no operation is submitted.
  void launch(const orKernel& kernel, const void* args, size_t size, const orObserver* observer);
  /// Runs a kernel on the calling thread, in stream order; returns when it is done. See Note [Turns].
  [[nodiscard]] orError_t run(const orKernel& kernel, void* args, const orObserver* observer);
  void submit_record(const Ref<Record>& record);
  void submit_wait(Ref<Record> record);
  /// Submits operations that stay together: no other operation comes between them. `fill(i, operation)` sets
  /// the i-th. Call finish_submission with the result, without a lock that a kernel could take.
  template <typename Fill>
  [[nodiscard]] uint64_t submit_together(uint64_t count, Fill&& fill);
  void finish_submission(uint64_t ticket);

  // ---- Synchronization.
  uint64_t submitted() const { return submitted_.load(); }
  /// Reads completed_ first: it is never greater than submitted_.
  uint64_t pending() const {
    const uint64_t done = completed_.load();
    return submitted_.load() - done;
  }
  bool finished(uint64_t ticket) const { return completed_.load() >= ticket; }
  /// Waits for the ticket, and runs operations meanwhile. Returns orErrorNotPermitted if the ticket depends
  /// on the calling kernel.
  [[nodiscard]] orError_t wait(uint64_t ticket);
  /// Returns and clears the unreported kernel failure, if any. `which` selects one failure; NULL selects any.
  [[nodiscard]] orError_t take_failure(const Failure* which);
  /// As take_failure, without clearing it.
  [[nodiscard]] orError_t pending_failure(const Failure* which);
  /// Work that is submitted from now on runs, if the stream is poisoned by this failure.
  void clear_poison_of(const Failure& failure);

  /// As orDriver.stream_abort.
  void abort(const char* why);

  // ---- Capture; see capture.h. A captured stream gets no submissions.
  bool capturing() const { return capturing_.load(std::memory_order_acquire); }
  /// Empty if the stream is not captured.
  Ref<Capture> capture();
  /// Returns false if the stream is already captured.
  [[nodiscard]] bool begin_capture(Ref<Capture> capture);
  void end_capture();

  // ---- For calls inside kernels.
  /// True if a kernel of this stream is on the stack of the calling thread.
  bool running_here() const;
  /// True if the calling thread is inside a kernel of any stream.
  static bool inside_kernel();
  /// True if the running operation is the only unfinished one.
  bool only_current_left() const { return submitted_.load() == completed_.load() + 1; }

  // ---- Deferred kernels; see Note [Deferred kernels] in openreg.h.
  /// Defers the kernel that the calling thread runs.
  [[nodiscard]] static orError_t defer(Deferred*& deferred);
  /// The kernel that the calling thread runs cannot be deferred.
  static void forbid_deferral();
  static void finish(std::unique_ptr<Deferred> deferred, orError_t result, const char* why);

  // ---- For the executor and records.
  void run_as_worker(LaunchPattern& pattern);
  void unpark();

  int priority() const { return priority_; }
  int device_index() const { return index_; }
  uint64_t id() const { return id_; }

  struct ReadyLink {  // guarded by the lock of the executor
    Stream* next = nullptr;
    bool linked = false;
    int64_t not_before_ns = 0;
  } ready_link;
  Stream* next_waiter = nullptr;  // guarded by the lock of the record that the stream is parked on

 private:
  enum class State : uint32_t { kIdle, kWatched, kReady, kRunning, kParked, kOffered };
  enum class Runner { kWorker, kWaiter, kSubmitter, kTurnOwner };
  class Frame;

  static constexpr uint64_t kNever = UINT64_MAX;
  static constexpr int kWaitSpins = 50;  // polls of a waiting host thread before it sleeps

  template <typename Fill>
  uint64_t submit(Fill&& fill);
  void schedule();

  bool try_claim();
  bool watch(Polling polling);
  bool begin_inline(uint64_t& ticket);
  void end_inline(uint64_t ticket);
  [[nodiscard]] orError_t run_inline(uint64_t ticket, const orKernel& kernel, void* args,
                                     const orObserver* observer);
  void release_claim();
  /// Runs operations through `until` and releases the claim. For the owner of the turn `until`: returns true
  /// if it has reached the turn; then the stream is still claimed.
  bool run_claimed(uint64_t until, Runner runner, LaunchPattern* pattern = nullptr);
  bool park(const Operation& wait);
  bool offer(Operation& turn);
  bool claim_offer(uint64_t turn);
  void withdraw(Operation& turn, uint64_t ticket);
  /// Return false if the kernel is deferred. The stream then stays claimed until finish().
  [[nodiscard]] bool execute(Operation& operation);
  [[nodiscard]] bool execute_kernel(Operation& operation);
  void end_kernel(Operation& operation, int64_t start_ns, orError_t result, const char* why);
  void complete(uint64_t ticket);

  enum class Help { kHelped, kNothing, kSelf };
  Help help_blocker();
  [[nodiscard]] orError_t wait_as(Runner runner, uint64_t ticket);
  void sleep(Runner runner, uint64_t ticket);
  void wake_sleepers();

  bool poisoned() const { return drop_through_.load(std::memory_order_acquire) == kNever; }
  /// The failure that the stream is poisoned with, or an empty reference.
  Ref<Failure> current_failure();
  [[nodiscard]] orError_t failure_before(uint64_t ticket);
  void poison(const orKernel& kernel, const char* why);
  void follow_failure(const Ref<Failure>& failure);
  void set_failure(Ref<Failure> failure);  // with failure_mutex_
  void clear_poison();                     // with failure_mutex_

  Device& device_;
  const int index_;
  const int priority_;
  const uint64_t id_;

  // Changed seldom while work is launched and run.
  std::atomic<State> state_{State::kIdle};
  std::atomic<bool> deferred_{false};   // the first operation is a kernel that is deferred
  std::atomic<bool> capturing_{false};  // true if capture_ is set
  // Operations up to this ticket are dropped. kNever from a failure until a thread has got it, then the last
  // ticket that was submitted before the report.
  std::atomic<uint64_t> drop_through_{0};
  std::atomic<uint64_t> wake_at_{kNever};  // the smallest ticket that a thread sleeps for

  // Written by submissions.
  alignas(kCacheLine) std::mutex submit_mutex_;  // guards the producing end of queue_, and the last three
  std::atomic<uint64_t> submitted_{0};
  Ref<Record> blocked_on_;
  uint64_t abandoned_through_ = 0;  // waits up to this ticket do not wait
  Ref<Capture> capture_;

  // Written by the thread that has the claim.
  alignas(kCacheLine) std::atomic<uint64_t> completed_{0};

  OperationQueue queue_;

  std::mutex failure_mutex_;  // guards the two below, and changes of drop_through_
  Ref<Failure> failure_;      // the last one
  std::atomic<bool> unreported_{false};

  std::mutex sleep_mutex_;  // guards wake_count_
  std::condition_variable sleepers_;
  uint64_t wake_count_ = 0;
};

/// Identifies the calling thread among those that exist.
inline const void* this_thread() {
  static thread_local const char identity = 0;
  return &identity;
}

template <typename Fill>
uint64_t Stream::submit(Fill&& fill) {
  return submit_together(1, [&](uint64_t, Operation& operation) { fill(operation); });
}

template <typename Fill>
uint64_t Stream::submit_together(uint64_t count, Fill&& fill) {
  std::lock_guard lock(submit_mutex_);
  uint64_t filled = 0;
  try {
    for (; filled < count; ++filled) fill(filled, queue_.back(filled));
  } catch (...) {
    while (filled-- > 0) queue_.back(filled).clear();
    throw;
  }
  // Incremented before publish(), so that completed_ is never greater than submitted_; and once for all, so
  // that a thread that reports a failure drops all of these operations or none.
  const uint64_t before = submitted_.fetch_add(count);
  for (uint64_t i = 0; i < count; ++i) {
    Operation& operation = queue_.back(i);
    // A turn draws no delay: whether run() queues a turn depends on timing, and the draws must not.
    operation.delay = operation.kind == Operation::Kind::kTurn ? Delay{} : draw_delay();
    operation.ticket = before + 1 + i;
    operation.launcher = this_thread();
    if (operation.kind == Operation::Kind::kRecord) operation.record->ticket = operation.ticket;
  }
  queue_.publish(count);
  return before + count;
}

/// Runs a kernel. Sets `why` also if the kernel throws or fails without a message. `why` is empty on entry.
[[nodiscard]] orError_t call_kernel(const orKernel& kernel, void* args, char* why, size_t why_size);

/// Reports a failure to the calling thread, and clears it on all streams. Returns orSuccess if the thread has
/// already got it.
[[nodiscard]] orError_t report(Failure& failure);

/// Formats the message of a failed kernel.
constexpr size_t kFailureSize = 960;
void format_failure(char* message, size_t size, const orKernel& kernel, const Stream& stream,
                    const char* why);

}  // namespace openreg::sim
