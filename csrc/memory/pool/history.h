// The allocation history of a pool, in the format of PyTorch's memory viewer.
//
// Off by default; the cost is then one load per allocation. Thread safety: on() and gather() may be called
// from any thread; all other functions require the mutex of the owning pool.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <memory>
#include <vector>

namespace openreg {

using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;
using Context = std::shared_ptr<c10::GatheredContext>;

struct HistoryOptions {
  bool on = false;
  c10::CachingDeviceAllocator::CreateContextFn gather = nullptr;  // captures the calling thread's stack trace
  RecordContext when = RecordContext::NEVER;                      // which events keep a stack trace
  size_t max_entries = 1;                                         // older entries are overwritten
  std::vector<TraceEntry::Action> skip;                           // actions that are not recorded
};

class History {
 public:
  explicit History(c10::DeviceIndex device) : device_(device) {}

  bool on() const { return on_.load(std::memory_order_relaxed); }

  /// The calling thread's stack trace, if it is recorded for that reason. May take the GIL: do not hold the
  /// pool's mutex.
  Context gather(RecordContext reason) const;

  /// Whether stacks are kept beyond the lifetime of an allocation.
  bool keeps_stacks() const { return when_.load(std::memory_order_relaxed) >= RecordContext::ALLOC; }

  void set(const HistoryOptions& options, bool clear);
  void note(TraceEntry::Action action, size_t address, size_t size, c10::StreamId stream,
            const Context& context, c10::MempoolId_t pool = {0, 0});

  /// Oldest first.
  std::vector<TraceEntry> entries() const;

 private:
  const c10::DeviceIndex device_;
  std::atomic<bool> on_{false};
  std::atomic<RecordContext> when_{RecordContext::NEVER};
  std::atomic<c10::CachingDeviceAllocator::CreateContextFn> gather_{nullptr};
  size_t max_entries_ = 1;
  uint32_t skipped_ = 0;  // a bit for each action
  std::vector<TraceEntry> entries_;
  size_t oldest_ = 0;  // once entries_ is full
};

}  // namespace openreg
