#include "executor.h"

#include "platform.h"
#include "schedule.h"
#include "stream.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

namespace openreg::sim {
namespace {

constexpr int kMaxThreads = 8;

}  // namespace

Executor& Executor::get() {
  static Executor* executor = new Executor;  // leaked: its threads outlive static destructors
  return *executor;
}

int Executor::max_threads() {
  return std::min(kMaxThreads, std::max(2, platform::hardware_threads()));
}

Executor::Executor() : max_spinning_(platform::hardware_threads() <= 2 ? 1 : kMaxThreads) {}

void Executor::enqueue(Stream& stream, int64_t not_before_ns) {
  std::unique_lock lock(mutex_);
  Stream::ReadyLink& link = stream.ready_link;
  link.not_before_ns = not_before_ns;
  if (!link.linked) {
    stream.retain();
    link.linked = true;
    link.next = nullptr;
    List& list = lists_[std::clamp(kPriorities - 1 + stream.priority(), 0, kPriorities - 1)];
    (list.first ? list.last->ready_link.next : list.first) = &stream;
    list.last = &stream;
    ready_.fetch_add(1);
  }
  wake_for(ready_.load(std::memory_order_relaxed), lock);
}

// Either enqueue() sees that the thread no longer watches, or this sees the queued stream.
void Executor::end_watch(const Stream* claimed) {
  watching_.fetch_sub(1);
  if (!claimed || ready_.load() == 0) return;
  std::unique_lock lock(mutex_);
  wake_for(ready_.load(std::memory_order_relaxed) - (claimed->ready_link.linked ? 1 : 0), lock);
}

// Wakes or starts a thread if more streams are ready than threads look for them. May release the lock.
void Executor::wake_for(int ready, std::unique_lock<std::mutex>& lock) {
  if (ready <= searching_ + watching_.load()) return;
  if (sleeping_ > 0) {
    --sleeping_;
    ++searching_;
    ++signals_;
    lock.unlock();
    wake_.notify_one();
  } else if (threads_ < max_threads()) {
    start_thread();
  }
}

void Executor::start_thread() {
  ++threads_;
  ++searching_;
  try {
    std::thread([this] { work(); }).detach();
  } catch (const std::exception&) {
    // The stream stays queued for existing threads, or for a host thread that waits for it.
    --threads_;
    --searching_;
  }
}

void Executor::work() {
  platform::block_signals();
  platform::sleep_precisely();
  LaunchPattern pattern;
  std::unique_lock lock(mutex_);
  for (;;) {
    int64_t earliest_ns = 0;
    if (Stream* picked = pick(earliest_ns)) {
      --searching_;
      lock.unlock();
      const Ref<Stream> stream = Ref<Stream>::adopt(picked);
      stream->run_as_worker(pattern);
      lock.lock();
      ++searching_;
    } else if (!wait_for_ready(lock, pattern.polling())) {
      sleep(lock, earliest_ns);
    }
  }
}

Stream* Executor::unlink(List& list, Stream* before, Stream* stream) {
  Stream::ReadyLink& link = stream->ready_link;
  (before ? before->ready_link.next : list.first) = link.next;
  if (list.last == stream) list.last = before;
  link.linked = false;
  ready_.fetch_sub(1, std::memory_order_relaxed);
  return stream;
}

Stream* Executor::pick(int64_t& earliest_ns) {
  if (ready_.load(std::memory_order_relaxed) == 0) return nullptr;
  const int64_t now = now_ns();
  uint32_t eligible = 0;
  for (const List& list : lists_) {
    for (Stream* stream = list.first; stream; stream = stream->ready_link.next) {
      const int64_t not_before = stream->ready_link.not_before_ns;
      if (not_before <= now) {
        ++eligible;
      } else if (earliest_ns == 0 || not_before < earliest_ns) {
        earliest_ns = not_before;
      }
      if (eligible && current_schedule() != orScheduleAdversarial) break;
    }
  }
  if (eligible == 0) return nullptr;
  uint32_t skip = draw_pick(eligible);
  for (List& list : lists_) {
    Stream* before = nullptr;
    for (Stream* stream = list.first; stream; before = stream, stream = stream->ready_link.next) {
      if (stream->ready_link.not_before_ns <= now && skip-- == 0) return unlink(list, before, stream);
    }
  }
  return nullptr;
}

bool Executor::wait_for_ready(std::unique_lock<std::mutex>& lock, Polling polling) {
  if (ready_.load(std::memory_order_relaxed) != 0)
    return false;  // all ready streams are delayed by the schedule
  lock.unlock();
  poll(polling, [this] { return has_ready(); });
  lock.lock();
  return ready_.load(std::memory_order_relaxed) != 0;
}

void Executor::sleep(std::unique_lock<std::mutex>& lock, int64_t earliest_ns) {
  --searching_;
  ++sleeping_;
  const auto signaled = [this] { return signals_ > 0; };
  if (earliest_ns == 0) {
    wake_.wait(lock, signaled);
  } else {
    const auto delay = std::chrono::nanoseconds(std::max<int64_t>(earliest_ns - now_ns(), 0));
    if (!wake_.wait_for(lock, delay, signaled)) {
      --sleeping_;
      ++searching_;
      return;
    }
  }
  --signals_;  // enqueue has already updated sleeping_ and searching_
}

}  // namespace openreg::sim
