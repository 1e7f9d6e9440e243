#include "operation.h"

#include <cstring>
#include <new>

namespace openreg::sim {

void Operation::set_kernel(const orKernel& new_kernel, const void* new_args, size_t size,
                           const orObserver* new_observer) {
  void* block = size <= kInlineArgs ? storage : ::operator new(size);
  if (size) std::memcpy(block, new_args, size);
  kind = Kind::kKernel;
  args = block;
  kernel = &new_kernel;
  observer = new_observer ? *new_observer : orObserver{};
}

void Operation::set_record(Kind new_kind, Ref<Record> new_record) {
  kind = new_kind;
  record = std::move(new_record);
}

void Operation::set_turn() {
  kind = Kind::kTurn;
  turn.store(Turn::kWaiting, std::memory_order_relaxed);
}

void Operation::clear() {
  if (kind == Kind::kKernel) {
    if (args != storage) ::operator delete(args);
    args = nullptr;
  } else {
    record = {};
  }
}

OperationQueue::~OperationQueue() {
  // A stream is destroyed only after its work is done, so the segments hold no operations.
  for (Segment* segment = head_; segment;) delete std::exchange(segment, segment->next);
  delete spare_.load();
}

Operation& OperationQueue::back(uint64_t ahead) {
  if (!tail_) head_ = tail_ = new Segment;
  const uint64_t position = published_.load(std::memory_order_relaxed) + ahead;
  Segment* segment = tail_;
  uint64_t begin = tail_begin_;
  for (; position >= begin + kSegmentSize; begin += kSegmentSize) {
    if (!segment->next) {
      segment->next = spare_.exchange(nullptr);
      if (!segment->next) segment->next = new Segment;
    }
    segment = segment->next;
  }
  return segment->operations[position - begin];
}

// The consumer releases a segment only after an operation of the next one is published; then this thread does
// not use it any more.
void OperationQueue::publish(uint64_t count) {
  const uint64_t last = published_.load(std::memory_order_relaxed) + count - 1;
  for (; last >= tail_begin_ + kSegmentSize; tail_begin_ += kSegmentSize) tail_ = tail_->next;
  published_.fetch_add(count);
}

Operation* OperationQueue::front() {
  const uint64_t position = popped_.load(std::memory_order_relaxed);
  if (position == known_ && position == (known_ = published_.load())) return nullptr;
  if (position == head_begin_ + kSegmentSize) {
    Segment* used = std::exchange(head_, head_->next);
    head_begin_ = position;
    used->next = nullptr;
    delete spare_.exchange(used);
  }
  return &head_->operations[position - head_begin_];
}

void OperationQueue::pop() {
  front()->clear();
  popped_.fetch_add(1);
}

}  // namespace openreg::sim
