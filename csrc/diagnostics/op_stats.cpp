#include "diagnostics/op_stats.h"

#include "common/fork.h"
#include "diagnostics/sync_debug.h"
#include "diagnostics/watched_launch.h"
#include "layouts/composite.h"
#include "stream/schedule.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace openreg {
namespace {

// Written by one thread, read by any thread.
class Counter {
 public:
  void add_one() { value_.store(value_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// Counters of one thread. After the thread's exit, the next new thread reuses the shard. Never freed.
struct Shard {
  Counter launches;
  Counter hits;
  Counter misses;
  Counter waits;
  OperatorRecord* current = nullptr;  // call in progress; accessed only by the shard's thread

  std::mutex mutex;  // guards records
  std::unordered_map<std::string_view, OperatorRecord> records;

  std::atomic<bool> taken{true};
  Shard* next = nullptr;
};

std::atomic<Shard*> all_shards{nullptr};
thread_local Shard* my_shard = nullptr;

Shard* take_shard() {
  for (Shard* shard = all_shards.load(std::memory_order_acquire); shard != nullptr; shard = shard->next) {
    if (!shard->taken.load(std::memory_order_relaxed) &&
        !shard->taken.exchange(true, std::memory_order_acquire)) {
      return shard;
    }
  }
  auto* made = new Shard;
  made->next = all_shards.load(std::memory_order_relaxed);
  while (!all_shards.compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) {
  }
  return made;
}

// Returns the thread's shard for reuse at thread exit.
struct ShardReleaser {
  ~ShardReleaser() {
    if (Shard* shard = std::exchange(my_shard, nullptr)) {
      shard->taken.store(false, std::memory_order_release);
    }
  }
  void begin() {}
};
thread_local ShardReleaser lease;

C10_NOINLINE Shard& begin_shard() {
  my_shard = take_shard();
  lease.begin();  // constructs the thread-local, so that its destructor runs at thread exit
  return *my_shard;
}

Shard& local_shard() {
  return C10_LIKELY(my_shard != nullptr) ? *my_shard : begin_shard();
}

template <typename Visit>
void for_each_shard(Visit visit) {
  for (Shard* shard = all_shards.load(std::memory_order_acquire); shard != nullptr; shard = shard->next) {
    visit(*shard);
  }
}

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

uint64_t bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return 0;
  }
  if (C10_LIKELY(!is_composite(tensor))) {
    return static_cast<uint64_t>(tensor.numel()) * tensor.itemsize();
  }
  uint64_t bytes = 0;
  map_components(tensor, [&](const at::Tensor& part) {
    bytes += bytes_of(part);
    return part;
  });
  return bytes;
}

uint64_t bytes_of(const c10::IValue& result) {
  uint64_t bytes = 0;
  if (result.isTensor()) {
    bytes = bytes_of(result.toTensor());
  } else if (result.isTensorList()) {
    for (const at::Tensor& tensor : result.toTensorVector()) {
      bytes += bytes_of(tensor);
    }
  }
  return bytes;
}

}  // namespace

OperatorRecord& OperatorRecord::operator+=(const OperatorRecord& other) {
  calls += other.calls;
  launches += other.launches;
  hits += other.hits;
  misses += other.misses;
  waits += other.waits;
  bytes += other.bytes;
  host_ns += other.host_ns;
  return *this;
}

OperatorTotals operator_totals() {
  OperatorTotals totals;
  for_each_shard([&](const Shard& shard) {
    totals.launches += shard.launches.value();
    totals.hits += shard.hits.value();
    totals.misses += shard.misses.value();
    totals.waits += shard.waits.value();
  });
  return totals;
}

void record_operators(bool on) {
  check_not_forked();
  static std::mutex mutex;  // guards requests
  static int requests = 0;
  std::lock_guard<std::mutex> lock(mutex);
  requests += on ? 1 : -1;
  debug_flags::set(debug_flags::kStatistics, requests > 0);
}

std::map<std::string, OperatorRecord, std::less<>> operator_records() {
  check_not_forked();
  std::map<std::string, OperatorRecord, std::less<>> sum;
  for_each_shard([&](Shard& shard) {
    std::lock_guard<std::mutex> lock(shard.mutex);
    for (const auto& [name, record] : shard.records) {
      sum[std::string(name)] += record;
    }
  });
  return sum;
}

void reset_operator_records() {
  check_not_forked();
  for_each_shard([](Shard& shard) {
    std::lock_guard<std::mutex> lock(shard.mutex);
    shard.records.clear();
  });
}

void note_plan(bool fresh) {
  Shard& shard = local_shard();
  (fresh ? shard.misses : shard.hits).add_one();
  if (C10_UNLIKELY(shard.current != nullptr)) {
    ++(fresh ? shard.current->misses : shard.current->hits);
  }
}

void note_launch() {
  Shard& shard = local_shard();
  shard.launches.add_one();
  if (C10_UNLIKELY(shard.current != nullptr)) {
    ++shard.current->launches;
  }
}

void note_wait() {
  Shard& shard = local_shard();
  shard.waits.add_one();
  if (C10_UNLIKELY(shard.current != nullptr)) {
    ++shard.current->waits;
  }
}

void note_run(const OpDescription& op_info) {
  if (op_info.launches && schedule() == orScheduleBlocking) {
    note_launch();
  } else {
    note_wait();
  }
}

void OperatorCall::begin(const c10::OperatorHandle& op, const OpDescription& op_info,
                         const torch::jit::Stack* stack) {
  report_call(op, op_info, *stack);
  begin_record(op_info.name, &op_info, stack);
  if ((debug_flags::now() & debug_flags::kRaces) != 0) {
    accesses_.emplace(std::uncaught_exceptions(), op, op_info, stack, depends_on_data(op, op_info, *stack));
  }
}

void OperatorCall::begin_copy(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  report_copy(dst, src, non_blocking);
  begin_record(kCopyName);
  if (recording_.has_value()) {
    recording_->record.bytes = bytes_of(dst);
  }
  if ((debug_flags::now() & debug_flags::kRaces) != 0) {
    accesses_.emplace(std::uncaught_exceptions());
  }
}

void OperatorCall::begin_record(std::string_view name, const OpDescription* op_info,
                                const torch::jit::Stack* stack) {
  check_not_forked();
  if (launches_are_watched()) {
    site_.emplace(site_of_call());
  }
  if ((debug_flags::now() & debug_flags::kStatistics) == 0) {
    return;
  }
  Shard& shard = local_shard();
  recording_.emplace(
      Recording{name, {}, shard.current, now_ns(), std::uncaught_exceptions(), op_info, stack});
  recording_->record.calls = 1;
  shard.current = &recording_->record;
}

void OperatorCall::end_accesses() noexcept {
  if (std::uncaught_exceptions() == accesses_->exceptions) {
    accesses_->scope.finish();
  }
}

void OperatorCall::end() noexcept {
  Recording& call = *recording_;
  call.record.host_ns = now_ns() - call.start_ns;
  Shard& shard = local_shard();
  shard.current = call.outer;
  const bool returned = std::uncaught_exceptions() == call.exceptions;
  if (call.stack != nullptr && returned && !call.op_info->is_view) {
    for (size_t i = 1; i <= call.op_info->results; ++i) {
      call.record.bytes += bytes_of((*call.stack)[call.stack->size() - i]);
    }
  }
  std::lock_guard<std::mutex> lock(shard.mutex);
  shard.records[call.name] += call.record;
}

}  // namespace openreg
