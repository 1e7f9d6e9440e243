// What happened to a pool's memory, in the form that PyTorch's memory viewer reads.
//
// Off by default: then the pool pays one load. Thread safety: on() and gather() may be called from any
// thread; everything else needs the mutex of the pool that it belongs to.
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
  c10::CachingDeviceAllocator::CreateContextFn gather = nullptr;  // takes the calling thread's stack
  RecordContext when = RecordContext::NEVER;                      // for what a stack is kept
  size_t max_entries = 1;                                         // older ones are overwritten
  std::vector<TraceEntry::Action> skip;                           // what is not kept
};

class History {
 public:
  explicit History(c10::DeviceIndex device) : device_(device) {}

  bool on() const { return on_.load(std::memory_order_relaxed); }

  /// The calling thread's stack, if it is kept for that. May take Python's lock: call it without the pool's.
  Context gather(RecordContext reason) const;

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
