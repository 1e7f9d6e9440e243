// Waiting for a stream: the waiting thread runs pending work itself, polls, and then sleeps.
#include "error.h"
#include "pause.h"
#include "stream.h"

#include <algorithm>
#include <chrono>

namespace openreg::sim {
namespace {

// Sleep of a waiting kernel between two checks.
constexpr auto kKernelWaitPeriod = std::chrono::milliseconds(1);

}  // namespace

orError_t Stream::wait(uint64_t ticket) {
  return wait_as(Runner::kWaiter, ticket);
}

// Waits until the operation is finished; for the owner of a turn, until it has claimed the stream at its
// turn; for a submitter, also until a kernel of the stream is deferred.
orError_t Stream::wait_as(Runner runner, uint64_t ticket) {
  const bool owner = runner == Runner::kTurnOwner;
  for (int attempt = 0; owner ? !claim_offer(ticket) : !finished(ticket); ++attempt) {
    if (runner == Runner::kSubmitter && deferred_.load()) return orSuccess;
    bool helped = false;
    if (try_claim()) {
      helped = !queue_.empty();
      if (run_claimed(ticket, runner)) return orSuccess;
    } else {
      const Help help = running_here() ? Help::kSelf : help_blocker();
      if (help == Help::kSelf) {
        return fail(
            orErrorNotPermitted,
            "a kernel cannot wait for stream %llu of device %d, which cannot proceed before the kernel "
            "returns",
            static_cast<unsigned long long>(id_), index_);
      }
      helped = help == Help::kHelped;
    }
    if (helped) {
      attempt = 0;
    } else if (attempt < kWaitSpins) {
      pause();
    } else {
      sleep(runner, ticket);
    }
  }
  return orSuccess;
}

// If the stream is parked, runs the work that it waits for, directly or through other parked streams.
Stream::Help Stream::help_blocker() {
  Ref<Record> record;
  Stream* blocked = this;
  while (blocked->state_.load() == State::kParked) {
    Ref<Record> next;
    {
      std::lock_guard lock(blocked->submit_mutex_);
      next = blocked->blocked_on_;
    }
    if (!next || next->done()) return Help::kNothing;
    if (next->is_of_other_process()) return Help::kNothing;
    record = std::move(next);
    blocked = record->stream.get();
    if (blocked->running_here()) return Help::kSelf;
    if (blocked->try_claim()) {
      blocked->run_claimed(record->ticket, Runner::kWaiter);
      return Help::kHelped;
    }
  }
  return Help::kNothing;
}

void Stream::sleep(Runner runner, uint64_t ticket) {
  std::unique_lock lock(sleep_mutex_);
  wake_at_.store(std::min(wake_at_.load(), ticket));
  const uint64_t before = wake_count_;
  const State state = state_.load();
  const bool claimable = state == State::kOffered
                             ? runner == Runner::kTurnOwner && completed_.load() + 1 == ticket
                             : state != State::kRunning && state != State::kParked && !queue_.empty();
  if (finished(ticket) || claimable || (runner == Runner::kSubmitter && deferred_.load())) return;
  const auto woken = [&] { return wake_count_ != before; };
  if (inside_kernel()) {
    // The stream may start to depend on the waiting kernel without a wake-up; check again periodically.
    sleepers_.wait_for(lock, kKernelWaitPeriod, woken);
  } else {
    sleepers_.wait(lock, woken);
  }
}

void Stream::wake_sleepers() {
  std::lock_guard lock(sleep_mutex_);
  wake_at_.store(kNever);  // unfinished waiters set it again
  ++wake_count_;
  sleepers_.notify_all();
}

}  // namespace openreg::sim
