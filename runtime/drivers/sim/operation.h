// One piece of a stream's work, and the queue of them.
#pragma once

#include "event.h"
#include "openreg/driver.h"
#include "ref.h"
#include "schedule.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace openreg::sim {

struct Operation {
  enum class Kind : uint8_t { kKernel, kRecord, kWait, kTurn };
  /// Of a kTurn; see Note [Turns] in stream.h.
  enum class Turn : uint8_t { kWaiting, kOffered, kWithdrawn };

  static constexpr size_t kInlineArgs = 192;

  Kind kind = Kind::kKernel;
  uint64_t ticket = 0;
  Delay delay;
  const orKernel* kernel = nullptr;
  orObserver observer{};  // done is NULL without one
  void* args = nullptr;   // `storage`, or from the heap if larger
  Ref<Record> record;
  std::atomic<Turn> turn{Turn::kWaiting};
  alignas(std::max_align_t) std::byte storage[kInlineArgs];

  void set_kernel(const orKernel& kernel, const void* args, size_t size, const orObserver* observer);
  void set_record(Kind kind, Ref<Record> record);
  void set_turn();
  /// Gives up what it holds; the slot is used again.
  void clear();
};

/// In order, with one consumer at a time (whoever has claimed the stream) and producers that exclude each
/// other. The consumer needs no lock, and an operation stays where it is until it is popped. Segments are
/// used again, so that a steady stream allocates nothing.
class OperationQueue {
 public:
  OperationQueue() = default;
  ~OperationQueue();

  /// Producer: the slot for the next operation, which is not in the queue before publish().
  Operation& back();
  void publish();

  /// Consumer: NULL if there is none.
  Operation* front();
  void pop();

  /// Anyone.
  bool empty() const { return popped_.load() == published_.load(); }

 private:
  static constexpr uint64_t kSegmentSize = 32;
  struct Segment {
    Operation operations[kSegmentSize];
    Segment* next = nullptr;
  };

  std::atomic<uint64_t> published_{0};
  std::atomic<uint64_t> popped_{0};
  Segment* tail_ = nullptr;  // producer's
  uint64_t tail_begin_ = 0;
  Segment* head_ = nullptr;  // consumer's; the first is set before the first publish
  uint64_t head_begin_ = 0;
  std::atomic<Segment*> spare_{nullptr};
};

}  // namespace openreg::sim
