// A stream: work in order, run by whoever has claimed it.
//
// Note [Claims]
// At most one thread runs a stream's work at a time: the one that moved its state to running. That is a
// worker of the executor, or a host thread that waits and so runs the work itself. States:
//   idle     nothing is queued
//   watched  idle, and a worker looks at it a little longer: a submission need not tell the executor
//   ready    there is work; the executor knows, and anyone may claim
//   running  claimed
//   parked   its next operation waits for a record, whose completion makes it ready; nobody may claim
//   offered  its next operation is a turn, whose owner alone may claim
// A submission that finds the stream idle or watched makes it ready. One that finds it running, parked or
// offered leaves it to whoever lets go: letting go looks at the queue after the state, a submission at the
// state after the queue.
//
// Note [Tickets]
// Every operation has a number, one more than the one before. completed >= ticket means that it is over. Work
// that runs at once on the caller's thread takes a ticket without entering the queue.
//
// Note [Turns]
// run() calls its kernel on the calling thread, because the kernel uses that thread's state and stack. On an
// idle stream it does so at once. Otherwise it queues a turn and waits, so its place in the order is fixed at
// the call and later submissions of other threads cannot delay it. The waiting owner runs the operations in
// front of its turn like any other waiting host. A different runner that reaches the turn offers the stream
// to the owner and leaves. While it waits the owner runs only operations that its turn depends on, so a turn
// adds no cycle to the order. An owner that cannot wait (a kernel that the stream depends on) withdraws its
// turn; the exchange of Operation::turn decides whether the runner skips it or the owner removes it.
//
// Lifetime: counted. The handle has a reference, and so have the executor's queue, a record that the stream
// is parked on, and records that were made on it; a stream with work is always in one of these.
#pragma once

#include "event.h"
#include "openreg/driver.h"
#include "operation.h"
#include "ref.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace openreg::sim {

class Capture;
class Device;

class Stream : public Counted<Stream> {
 public:
  Stream(Device& device, int index, int priority, uint64_t id);
  ~Stream();

  // ---- Submitting. May throw std::bad_alloc, and then nothing was submitted.
  void launch(const orKernel& kernel, const void* args, size_t size, const orObserver* observer);
  /// Runs on the calling thread, in stream order; returns when it is done. See Note [Turns].
  [[nodiscard]] orError_t run(const orKernel& kernel, void* args, const orObserver* observer);
  void submit_record(const Ref<Record>& record);
  void submit_wait(Ref<Record> record);

  // ---- Waiting.
  uint64_t submitted() const { return submitted_.load(); }
  /// Completed is read first: it never overtakes submitted.
  uint64_t pending() const {
    const uint64_t done = completed_.load();
    return submitted_.load() - done;
  }
  bool finished(uint64_t ticket) const { return completed_.load() >= ticket; }
  /// Waits, and runs what there is to run meanwhile. orErrorNotPermitted if that would be to wait for the
  /// kernel that calls.
  [[nodiscard]] orError_t wait(uint64_t ticket);
  /// Reports and clears the failure of a kernel, if there is one that nobody was told of. `number` names one
  /// failure; 0 is any.
  [[nodiscard]] orError_t take_failure(uint64_t number);

  // ---- Being captured: then nothing is submitted, see capture.h.
  bool capturing() const { return capturing_.load(std::memory_order_acquire); }
  /// Empty if it is not captured.
  Ref<Capture> capture();
  /// False if it is captured already.
  [[nodiscard]] bool begin_capture(Ref<Capture> capture);
  void end_capture();

  // ---- For kernels that call back.
  /// True if a kernel of this stream is on the calling thread's stack.
  bool running_here() const;
  /// True if the calling thread is inside a kernel of any stream.
  static bool inside_kernel();
  /// True if nothing but the operation that runs now is unfinished.
  bool only_current_left() const { return submitted_.load() == completed_.load() + 1; }

  // ---- For the executor and records.
  void run_as_worker();
  void unpark();

  int priority() const { return priority_; }
  int device_index() const { return index_; }
  uint64_t id() const { return id_; }

  struct ReadyLink {  // the executor's, under its lock
    Stream* next = nullptr;
    bool linked = false;
    int64_t not_before_ns = 0;
  } ready_link;
  Stream* next_waiter = nullptr;  // the record's that this is parked on, under its lock

 private:
  enum class State : uint32_t { kIdle, kWatched, kReady, kRunning, kParked, kOffered };
  enum class Runner { kWorker, kWaiter, kTurnOwner };
  class Frame;

  static constexpr uint64_t kNever = UINT64_MAX;

  template <typename Fill>
  uint64_t submit(Fill&& fill);
  void finish_submission(uint64_t ticket);
  void schedule();

  bool try_claim();
  bool watch();
  bool begin_inline(uint64_t& ticket);
  void end_inline(uint64_t ticket);
  [[nodiscard]] orError_t run_inline(uint64_t ticket, const orKernel& kernel, void* args,
                                     const orObserver* observer);
  void let_go();
  /// Runs operations through `until` and lets go. For the owner of the turn `until`: true if it has reached
  /// the turn, and then the stream is still claimed.
  bool run_claimed(uint64_t until, Runner runner);
  bool park(Record& record);
  bool offer(Operation& turn);
  bool claim_offer(uint64_t turn);
  void withdraw(Operation& turn, uint64_t ticket);
  void execute(Operation& operation);
  void execute_kernel(Operation& operation);
  void complete(uint64_t ticket);

  enum class Help { kHelped, kNothing, kSelf };
  Help help_blocker();
  [[nodiscard]] orError_t wait_as(Runner runner, uint64_t ticket);
  void sleep(Runner runner, uint64_t ticket);
  void wake_sleepers();

  bool poisoned() const { return drop_through_.load(std::memory_order_acquire) == kNever; }
  uint64_t unreported_failure();
  [[nodiscard]] orError_t failure_before(uint64_t ticket);
  void poison(const orKernel& kernel, const char* why);

  Device& device_;
  const int index_;
  const int priority_;
  const uint64_t id_;

  std::atomic<State> state_{State::kIdle};
  std::atomic<uint64_t> submitted_{0};
  std::atomic<uint64_t> completed_{0};
  // Operations up to this ticket are dropped: kNever from a failure until it is reported, and from then on
  // what had been submitted by that moment.
  std::atomic<uint64_t> drop_through_{0};

  std::mutex submit_mutex_;  // guards the producing end of queue_, blocked_on_ and capture_
  OperationQueue queue_;
  Ref<Record> blocked_on_;
  Ref<Capture> capture_;
  std::atomic<bool> capturing_{false};  // capture_ is not empty

  std::mutex failure_mutex_;  // guards the two below, and changes of drop_through_
  uint64_t failure_number_ = 0;
  char failure_words_[640] = {};

  std::mutex sleep_mutex_;  // guards wake_count_
  std::condition_variable sleepers_;
  uint64_t wake_count_ = 0;
  std::atomic<uint64_t> wake_at_{kNever};  // the smallest ticket that someone sleeps for
};

/// Runs a kernel; what it throws, or fails without a word, is put into words. `why` is empty at first.
[[nodiscard]] orError_t call_kernel(const orKernel& kernel, void* args, char* why, size_t why_size);

/// The words for a failed kernel.
void format_failure(char* words, size_t size, const orKernel& kernel, const Stream& stream, const char* why);

}  // namespace openreg::sim
