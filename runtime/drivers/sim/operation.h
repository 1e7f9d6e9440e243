// An operation of a stream, and the queue of operations.
#pragma once

#include "event.h"
#include "openreg/driver.h"
#include "ref.h"
#include "schedule.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace openreg::sim {

/// Data that different threads write is on different pairs of lines: processors fetch lines in pairs.
inline constexpr size_t kCacheLine = 128;

struct Operation {
  enum class Kind : uint8_t { kKernel, kRecord, kWait, kTurn };
  /// State of a kTurn; see Note [Turns] in stream.h.
  enum class Turn : uint8_t { kWaiting, kOffered, kWithdrawn };

  static constexpr size_t kInlineArgs = 192;

  Kind kind = Kind::kKernel;
  uint64_t ticket = 0;
  Delay delay;
  const void* launcher = nullptr;  // identifies the thread that has submitted it
  const orKernel* kernel = nullptr;
  orObserver observer{};  // `done` is NULL without an observer
  void* args = nullptr;   // `storage`, or a heap block if larger
  Ref<Record> record;
  std::atomic<Turn> turn{Turn::kWaiting};
  alignas(std::max_align_t) std::byte storage[kInlineArgs];

  void set_kernel(const orKernel& kernel, const void* args, size_t size, const orObserver* observer);
  void set_record(Kind kind, Ref<Record> record);
  void set_turn();
  /// Releases its resources, so that the slot can be reused.
  void clear();
};

/// FIFO queue with one consumer at a time (the thread that has claimed the stream) and mutually exclusive
/// producers. The consumer needs no lock. An operation does not move until it is popped. Segments are reused,
/// so a queue of bounded length allocates no memory.
class OperationQueue {
 public:
  OperationQueue() = default;
  ~OperationQueue();

  /// Producer: the slot of the next operation, or of one after it. publish() adds them to the queue.
  Operation& back(uint64_t ahead = 0);
  void publish(uint64_t count = 1);

  /// Consumer: returns NULL if the queue is empty.
  Operation* front();
  void pop();

  /// Any thread.
  bool empty() const { return popped_.load() == published_.load(); }

 private:
  static constexpr uint64_t kSegmentSize = 32;
  struct Segment {
    Operation operations[kSegmentSize];
    Segment* next = nullptr;
  };

  // Of the producer. On other cache lines than those of the consumer, which is on another core.
  alignas(kCacheLine) std::atomic<uint64_t> published_{0};
  Segment* tail_ = nullptr;
  uint64_t tail_begin_ = 0;
  std::atomic<Segment*> spare_{nullptr};

  // Of the consumer.
  alignas(kCacheLine) std::atomic<uint64_t> popped_{0};
  uint64_t known_ = 0;       // the last value that was read of published_
  Segment* head_ = nullptr;  // initialized before the first publish
  uint64_t head_begin_ = 0;
};

}  // namespace openreg::sim
