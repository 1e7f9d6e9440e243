#include "memory/pool/history.h"

#include <algorithm>

namespace openreg {

Context History::gather(RecordContext reason) const {
  const auto function = gather_.load(std::memory_order_relaxed);
  const bool kept = when_.load(std::memory_order_relaxed) >= reason;
  return on() && kept && function != nullptr ? function() : nullptr;
}

void History::set(const HistoryOptions& options, bool clear) {
  on_.store(options.on, std::memory_order_relaxed);
  when_.store(options.on ? options.when : RecordContext::NEVER, std::memory_order_relaxed);
  gather_.store(options.gather, std::memory_order_relaxed);
  const size_t most = std::max<size_t>(options.max_entries, 1);
  if (clear || !options.on) {
    entries_.clear();
    oldest_ = 0;
  } else if (most != max_entries_) {
    entries_ = entries();
    if (entries_.size() > most) {
      entries_.erase(entries_.begin(), entries_.end() - static_cast<ptrdiff_t>(most));
    }
    oldest_ = 0;
  }
  max_entries_ = most;
  skipped_ = 0;
  for (const TraceEntry::Action action : options.skip) {
    skipped_ |= 1U << action;
  }
}

void History::note(TraceEntry::Action action, size_t address, size_t size, c10::StreamId stream,
                   const Context& context, c10::MempoolId_t pool) {
  if (!on() || (skipped_ >> action & 1U) != 0) {
    return;
  }
  TraceEntry entry(action, device_, address, size, reinterpret_cast<void*>(stream), pool, 0,
                   keeps_stacks() ? context : nullptr);
  entry.time_.t_ = static_cast<time_t>(c10::getTime() / 1000);  // microseconds
  if (entries_.size() < max_entries_) {
    entries_.push_back(std::move(entry));
  } else {
    entries_[oldest_] = std::move(entry);
    oldest_ = (oldest_ + 1) % max_entries_;
  }
}

std::vector<TraceEntry> History::entries() const {
  std::vector<TraceEntry> all(entries_);
  std::ranges::rotate(all, all.begin() + static_cast<ptrdiff_t>(oldest_));
  return all;
}

}  // namespace openreg
