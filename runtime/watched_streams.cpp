#include "watched_streams.h"

#include "faults.h"
#include "openreg/openreg.h"
#include "watchdog.h"

#include <algorithm>
#include <cstdio>

namespace openreg {
namespace {

std::string label(const std::pair<int, uint64_t>& stream) {
  const std::string device = std::string(orGetDeviceName()) + ":" + std::to_string(stream.first);
  if (stream.second == 0) return "the default stream of " + device;
  return "stream " + std::to_string(stream.second) + " of " + device;
}

std::string to_string(WatchedStreams::Clock::duration time) {
  char text[32];
  const double seconds = std::chrono::duration<double>(time).count();
  if (seconds < 1) {
    std::snprintf(text, sizeof(text), "%.0f ms", seconds * 1e3);
  } else {
    std::snprintf(text, sizeof(text), "%.1f s", seconds);
  }
  return text;
}

std::string at(const std::string& site) {
  return site.empty() ? "" : " at " + site;
}

}  // namespace

std::atomic<bool> WatchedStreams::on_{false};

WatchedStreams& WatchedStreams::instance() {
  static auto* made = new WatchedStreams;
  return *made;
}

void WatchedStreams::restart(bool on) {
  std::lock_guard lock(mutex_);
  ++session_;
  queues_.clear();
  records_.clear();
  on_.store(on, std::memory_order_relaxed);
}

void WatchedStreams::report_again() {
  std::lock_guard lock(mutex_);
  for (auto& [key, queue] : queues_) queue.reported = false;
}

WatchedWork WatchedStreams::submitted(const char* function, const char* name, int device, uint64_t stream) {
  if (faults_suspended()) return {};
  Entry entry{.kind = Entry::Kind::kWork, .function = function, .name = name ? name : ""};
  entry.site = hooked_text(&orWatchdogHooks::site);
  entry.arguments = hooked_text(&orWatchdogHooks::arguments);
  std::lock_guard lock(mutex_);
  if (!on()) return {};
  return {session_, device, stream, push(queues_[{device, stream}], std::move(entry))};
}

void WatchedStreams::finished(const WatchedWork& work) {
  std::lock_guard lock(mutex_);
  if (work.session != session_) return;
  Queue& queue = queues_[{work.device, work.stream}];
  if (work.position < queue.first) return;
  queue.entries[work.position - queue.first].finished = true;
  advance(queue);
}

void WatchedStreams::recorded(orEvent_t event, const StreamInfo& stream) {
  Point point{{stream.device, stream.id}, 0, hooked_text(&orWatchdogHooks::site)};
  std::lock_guard lock(mutex_);
  if (!on()) return;
  point.position = push(queues_[point.stream], {.kind = Entry::Kind::kRecord});
  records_.insert_or_assign(event, std::move(point));
}

void WatchedStreams::waits(orEvent_t event, const EventInfo& info, const StreamInfo& stream,
                           Runtime& runtime) {
  Entry entry{.kind = Entry::Kind::kWait, .site = hooked_text(&orWatchdogHooks::site)};
  const bool of_process = info.flags & orEventInterprocess;
  if (of_process && runtime.driver().event_query(info.driver) != orErrorNotReady) return;
  std::lock_guard lock(mutex_);
  if (!on()) return;
  if (const auto record = records_.find(event); record != records_.end()) {
    if (record->second.stream == Key{stream.device, stream.id} || reached(record->second)) return;
    entry.point = record->second;
  } else if (of_process) {
    entry.kind = Entry::Kind::kWaitForProcess;
    entry.event = event;
  } else {
    return;  // it was never recorded, or before the watchdog was switched on
  }
  push(queues_[{stream.device, stream.id}], std::move(entry));
}

void WatchedStreams::forget(orEvent_t event) {
  std::lock_guard lock(mutex_);
  records_.erase(event);
}

void WatchedStreams::waits_abandoned(int device, uint64_t stream) {
  std::lock_guard lock(mutex_);
  for (Entry& entry : queues_[{device, stream}].entries) {
    if (entry.kind != Entry::Kind::kWork) entry.finished = true;
  }
}

uint64_t WatchedStreams::push(Queue& queue, Entry entry) {
  entry.submitted = Clock::now();
  if (queue.entries.empty()) queue.progress = entry.submitted;
  queue.entries.push_back(std::move(entry));
  const uint64_t position = queue.first + queue.entries.size() - 1;
  advance(queue);  // a record in an empty queue is reached
  return position;
}

void WatchedStreams::advance(Queue& queue) {
  const auto is_done = [&](const Entry& entry) {
    switch (entry.kind) {
      case Entry::Kind::kRecord:
        return true;
      case Entry::Kind::kWait:
        return entry.finished || reached(entry.point);
      default:
        return entry.finished;
    }
  };
  while (!queue.entries.empty() && is_done(queue.entries.front())) {
    queue.entries.pop_front();
    ++queue.first;
    queue.progress = Clock::now();
    queue.reported = false;
  }
}

bool WatchedStreams::reached(const Point& point) const {
  const auto queue = queues_.find(point.stream);
  return queue == queues_.end() || queue->second.first > point.position;
}

// Waits form no cycle, since a wait is for a record that was submitted before it; but see Note [Watched
// streams] for threads.
WatchedStreams::Clock::time_point WatchedStreams::progress_of(const Queue& queue) const {
  Clock::time_point progress = queue.progress;
  const Queue* at = &queue;
  for (size_t i = 0; i < queues_.size(); ++i) {
    if (at->entries.empty() || at->entries.front().kind != Entry::Kind::kWait) break;
    at = &queues_.at(at->entries.front().point.stream);
    progress = std::max(progress, at->progress);
  }
  return progress;
}

// A wait that ends may let a queue advance that another one waits for.
void WatchedStreams::advance_all() {
  bool any = true;
  while (std::exchange(any, false)) {
    for (auto& [key, queue] : queues_) {
      const uint64_t before = queue.first;
      advance(queue);
      any |= queue.first != before;
    }
  }
}

void WatchedStreams::query_processes(Runtime& runtime) {
  std::vector<orEvent_t> waited;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, queue] : queues_) {
      if (!queue.entries.empty() && queue.entries.front().kind == Entry::Kind::kWaitForProcess) {
        waited.push_back(queue.entries.front().event);
      }
    }
  }
  std::erase_if(waited, [&](orEvent_t event) {
    EventPin pin;  // waits for destroyed events cannot be queried and count as ended
    return runtime.pin_event(event, pin) == orSuccess &&
           runtime.driver().event_query(pin->driver) == orErrorNotReady;
  });
  std::lock_guard lock(mutex_);
  for (auto& [key, queue] : queues_) {
    if (!queue.entries.empty() && queue.entries.front().kind == Entry::Kind::kWaitForProcess &&
        std::ranges::find(waited, queue.entries.front().event) != waited.end()) {
      queue.entries.front().finished = true;
    }
  }
}

std::vector<StalledStream> WatchedStreams::stalled(Clock::duration limit, Runtime& runtime) {
  query_processes(runtime);
  std::vector<StalledStream> all;
  std::lock_guard lock(mutex_);
  advance_all();
  const Clock::time_point now = Clock::now();
  for (auto& [key, queue] : queues_) {
    if (queue.entries.empty() || queue.reported || now - progress_of(queue) < limit) continue;
    queue.reported = true;
    all.push_back({key.first, key.second, describe(key, queue, now)});
  }
  return all;
}

std::string WatchedStreams::describe(const Key& stream, const Queue& queue, Clock::time_point now) const {
  const auto is_work = [](const Entry& entry) { return entry.kind == Entry::Kind::kWork; };
  const Entry& first = queue.entries.front();
  const auto next = std::ranges::find_if(queue.entries, is_work);
  const auto works = std::ranges::count_if(queue.entries, is_work);
  std::string text = label(stream) + ", no progress for " + to_string(now - progress_of(queue)) + "\n";
  if (next != queue.entries.end()) {
    text += "  next:  " + next->name + (next->arguments.empty() ? "" : " (" + next->arguments + ")") +
            ", submitted by " + next->function + at(next->site) + ", " + to_string(now - next->submitted) +
            " ago";
    if (works > 1) text += "; " + std::to_string(works - 1) + " behind it";
    text += "\n";
  }
  switch (first.kind) {
    case Entry::Kind::kWait:
      text += "  waits" + at(first.site) + " for an event that was recorded on " + label(first.point.stream) +
              at(first.point.site) + "\n";
      break;
    case Entry::Kind::kWaitForProcess:
      text += "  waits" + at(first.site) + " for an event of another process\n";
      break;
    default:
      text +=
          "  waits for no stream that is watched: the operation runs, or waits for something outside of the "
          "device\n";
  }
  return text;
}

}  // namespace openreg
