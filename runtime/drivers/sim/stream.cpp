#include "stream.h"

#include "capture.h"
#include "device.h"
#include "error.h"
#include "executor.h"
#include "pause.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace openreg::sim {
namespace {

// Operations that a worker runs on one stream before it picks another stream, if one is ready.
constexpr int kSlice = 64;

bool is_over(int& budget) {
  if (--budget > 0) return false;
  budget = kSlice;
  return Executor::get().has_ready();
}

}  // namespace

Stream::Stream(Device& device, int index, int priority, uint64_t id)
    : device_(device), index_(index), priority_(priority), id_(id) {
  device_.add(*this);
}

Stream::~Stream() {
  device_.remove(*this, unreported_.load() ? failure_ : Ref<Failure>());
}

// ---- Submission

void Stream::schedule() {
  State state = state_.load();
  do {
    if (state != State::kIdle && state != State::kWatched) return;
  } while (!state_.compare_exchange_weak(state, State::kReady));
  if (state == State::kIdle) Executor::get().enqueue(*this);
  if (wake_at_.load() != kNever) wake_sleepers();
}

void Stream::finish_submission(uint64_t ticket) {
  if (current_schedule() != orScheduleBlocking || running_here()) {
    schedule();
    return;
  }
  // Not scheduled: this thread claims the stream, or the thread with the claim sees the work.
  if (wait_as(Runner::kSubmitter, ticket) != orSuccess) schedule();
}

void Stream::launch(const orKernel& kernel, const void* args, size_t size, const orObserver* observer) {
  finish_submission(
      submit([&](Operation& operation) { operation.set_kernel(kernel, args, size, observer); }));
}

void Stream::submit_record(const Ref<Record>& record) {
  uint64_t ticket;
  if (begin_inline(ticket)) {
    record->ticket = ticket;
    record->complete(current_failure());
    end_inline(ticket);
    return;
  }
  submit([&](Operation& operation) { operation.set_record(Operation::Kind::kRecord, record); });
  schedule();
}

void Stream::submit_wait(Ref<Record> record) {
  // A record of the same stream is already in front of the wait.
  if ((record->done() && !record->failure) || record->stream.get() == this) return;
  submit([&](Operation& operation) { operation.set_record(Operation::Kind::kWait, std::move(record)); });
  schedule();
}

Ref<Capture> Stream::capture() {
  std::lock_guard lock(submit_mutex_);
  return capture_;
}

bool Stream::begin_capture(Ref<Capture> capture) {
  std::lock_guard lock(submit_mutex_);
  if (capture_) return false;
  capture_ = std::move(capture);
  capturing_.store(true, std::memory_order_release);
  return true;
}

void Stream::end_capture() {
  Ref<Capture> before;  // released outside the lock
  std::lock_guard lock(submit_mutex_);
  std::swap(before, capture_);
  capturing_.store(false, std::memory_order_release);
}

// ---- Claims

bool Stream::try_claim() {
  State state = state_.load();
  if (state == State::kRunning || state == State::kParked || state == State::kOffered) return false;
  return state_.compare_exchange_strong(state, State::kRunning);
}

bool Stream::begin_inline(uint64_t& ticket) {
  if (!try_claim()) return false;
  uint64_t last = completed_.load(std::memory_order_relaxed);
  if (submitted_.compare_exchange_strong(last, last + 1)) {
    ticket = last + 1;
    return true;
  }
  release_claim();
  return false;
}

void Stream::end_inline(uint64_t ticket) {
  complete(ticket);
  release_claim();
}

void Stream::release_claim() {
  state_.store(State::kIdle);
  if (!queue_.empty()) schedule();
}

bool Stream::park(const Operation& wait) {
  Record& record = *wait.record;
  {
    std::lock_guard lock(submit_mutex_);
    if (wait.ticket <= abandoned_through_) return false;
    blocked_on_ = wait.record;
  }
  state_.store(State::kParked);
  // Once it is a waiter, the record may make the stream ready at any time; this thread has lost the claim.
  if (record.add_waiter(*this)) return true;
  state_.store(State::kRunning);
  return false;
}

// Returns false if the turn was withdrawn. After true, the operation belongs to the owner, which may have
// removed it.
bool Stream::offer(Operation& turn) {
  Operation::Turn waiting = Operation::Turn::kWaiting;
  if (!turn.turn.compare_exchange_strong(waiting, Operation::Turn::kOffered)) return false;
  state_.store(State::kOffered);
  if (wake_at_.load() != kNever) wake_sleepers();
  return true;
}

// If completed_ is one less than the turn, an offered stream is offered to the owner of that turn.
bool Stream::claim_offer(uint64_t turn) {
  State offered = State::kOffered;
  return completed_.load() + 1 == turn && state_.load() == State::kOffered &&
         state_.compare_exchange_strong(offered, State::kRunning);
}

void Stream::withdraw(Operation& turn, uint64_t ticket) {
  Operation::Turn waiting = Operation::Turn::kWaiting;
  if (turn.turn.compare_exchange_strong(waiting, Operation::Turn::kWithdrawn)) return;
  while (!claim_offer(ticket)) pause();  // another thread is between the two steps of offer()
  queue_.pop();
  end_inline(ticket);
}

void Stream::unpark() {
  state_.store(State::kReady);
  Executor::get().enqueue(*this);
  if (wake_at_.load() != kNever) wake_sleepers();
}

// ---- Execution

void Stream::run_as_worker(LaunchPattern& pattern) {
  State ready = State::kReady;
  // A host thread may have claimed the stream, run it and released it.
  if (!state_.compare_exchange_strong(ready, State::kRunning)) return;
  do {
    const uint64_t before = completed_.load(std::memory_order_relaxed);
    const int64_t start = now_ns();
    run_claimed(kNever, Runner::kWorker, &pattern);
    pattern.add_time(completed_.load(std::memory_order_relaxed) - before, now_ns() - start);
  } while (watch(pattern.polling()));
}

// Saves the cost of the executor for programs that launch small kernels one by one. Several workers may watch
// a stream; the compare-and-exchange selects the one that gets the work.
bool Stream::watch(Polling polling) {
  if (current_schedule() != orScheduleAsync) return false;
  State idle = State::kIdle;
  if (!state_.compare_exchange_strong(idle, State::kWatched)) return false;
  Executor& executor = Executor::get();
  executor.begin_watch();
  executor.poll(polling, [&] {
    return state_.load(std::memory_order_relaxed) != State::kWatched || executor.has_ready();
  });
  State watched = State::kWatched;
  State ready = State::kReady;
  const bool claimed = !state_.compare_exchange_strong(watched, State::kIdle) &&
                       state_.compare_exchange_strong(ready, State::kRunning);
  executor.end_watch(claimed ? this : nullptr);
  return claimed;
}

bool Stream::run_claimed(uint64_t until, Runner runner, LaunchPattern* pattern) {
  const bool as_worker = runner == Runner::kWorker;
  int budget = kSlice;
  while (Operation* operation = queue_.front()) {
    const Delay delay = operation->delay;
    if (as_worker && delay.not_before_ns != 0 && now_ns() < delay.not_before_ns) {
      state_.store(State::kReady);
      Executor::get().enqueue(*this, delay.not_before_ns);
      if (wake_at_.load() != kNever) wake_sleepers();
      return false;
    }
    if (operation->kind == Operation::Kind::kWait && !operation->record->done() && park(*operation)) {
      return false;
    }
    if (operation->kind == Operation::Kind::kTurn) {
      if (runner == Runner::kTurnOwner && operation->ticket == until) return true;
      if (offer(*operation)) return false;
    }
    if (!execute(*operation)) return false;  // finish() continues
    const uint64_t ticket = operation->ticket;
    if (pattern) pattern->add(operation->launcher);
    queue_.pop();
    complete(ticket);
    if (ticket >= until || (as_worker && (delay.yields || is_over(budget)))) break;
  }
  release_claim();
  return false;
}

bool Stream::execute(Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::kKernel:
      return execute_kernel(operation);
    case Operation::Kind::kRecord:
      operation.record->complete(current_failure());
      break;
    case Operation::Kind::kWait: {
      Ref<Record> waited;  // released outside the lock: it may be the last reference to a stream
      {
        std::lock_guard lock(submit_mutex_);
        std::swap(waited, blocked_on_);
      }
      // A record that is not done was abandoned.
      if (operation.record->done() && operation.record->failure) [[unlikely]]
        follow_failure(operation.record->failure);
      break;
    }
    case Operation::Kind::kTurn:
      break;  // withdrawn
  }
  return true;
}

void Stream::complete(uint64_t ticket) {
  completed_.store(ticket);
  if (wake_at_.load() <= ticket) wake_sleepers();
}

}  // namespace openreg::sim
