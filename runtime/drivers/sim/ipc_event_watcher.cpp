#include "ipc_event_watcher.h"

#include "platform.h"
#include "shared_event.h"

#include <algorithm>
#include <iterator>
#include <thread>

namespace openreg::sim {
namespace {

constexpr int64_t kLivenessCheckNs = 5'000'000;
constexpr int64_t kIdleSleepNs = 3'600'000'000'000;

}  // namespace

IpcEventWatcher& IpcEventWatcher::get() {
  static auto* ipc_event_watcher = new IpcEventWatcher;  // leaked: its thread outlives static destructors
  return *ipc_event_watcher;
}

void IpcEventWatcher::add(Ref<Record> record) {
  {
    std::lock_guard lock(mutex_);
    if (!started_) {
      std::thread([this] { watch(); }).detach();
      started_ = true;
    }
    added_.push_back(std::move(record));
    added_count_.fetch_add(1);
  }
  platform::wake_all(&added_count_);
}

void IpcEventWatcher::watch() {
  platform::block_signals();
  std::vector<Ref<Record>> pending;
  std::vector<platform::WatchedWord> words;
  for (;;) {
    // Read the words before checking the records, so that no change in between is missed.
    words.assign(1, {&added_count_, added_count_.load()});
    {
      std::lock_guard lock(mutex_);
      for (Ref<Record>& record : added_) {
        record->shared->begin_watching();
        pending.push_back(std::move(record));
      }
      added_.clear();
    }
    for (const Ref<Record>& record : pending) {
      const std::atomic<uint32_t>& bell = record->shared->doorbell();
      const auto known = [&](const platform::WatchedWord& word) { return word.word == &bell; };
      if (std::ranges::none_of(words, known)) words.push_back({&bell, bell.load()});
    }
    const auto over = std::partition(pending.begin(), pending.end(),
                                     [](const Ref<Record>& record) { return !record->is_remote_finished(); });
    if (over == pending.end()) {
      platform::sleep_on(words.data(), static_cast<int>(words.size()),
                         pending.empty() ? kIdleSleepNs : kLivenessCheckNs);
      continue;
    }
    for (auto record = over; record != pending.end(); ++record) {
      (*record)->shared->end_watching();
      (*record)->complete({});
    }
    pending.erase(over, pending.end());
  }
}

}  // namespace openreg::sim
