// Statistics of operator calls: totals, and records by operator.
//
// Note [Operator statistics]
// Four totals are always counted. Each thread has its own counters, so that counting costs an increment.
// Records by operator are kept only while recording is on (record_operators), also per thread. Readers sum
// over all threads; the counts of a thread outlive it. A sum is exact once the counted calls have returned.
// Statistics are process-wide, because autograd launches from its own threads.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include "common/export.h"
#include "diagnostics/debug_flags.h"
#include "diagnostics/op_info.h"
#include "diagnostics/tensor_access.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace openreg {

struct OperatorRecord {
  uint64_t calls = 0;
  uint64_t launches = 0;  // launches that require no synchronization
  uint64_t hits = 0;      // launch cache hits
  uint64_t misses = 0;    // launch cache misses
  uint64_t waits = 0;     // synchronizations caused by the calls
  uint64_t bytes = 0;     // size of the results, or bytes copied
  int64_t host_ns = 0;    // host time from call to return

  OperatorRecord& operator+=(const OperatorRecord& other);
};

struct OperatorTotals {
  uint64_t launches = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t waits = 0;
};

/// Totals since process start.
OPENREG_EXPORT OperatorTotals operator_totals();

/// Starts (`true`) or stops (`false`) recording. Calls are counted: recording stops when every start is
/// matched by a stop.
OPENREG_EXPORT void record_operators(bool on);
/// The records since the last reset, by operator name.
OPENREG_EXPORT std::map<std::string, OperatorRecord, std::less<>> operator_records();
OPENREG_EXPORT void reset_operator_records();

/// Counts a lookup in the launch cache. `fresh`: cache miss.
void note_plan(bool fresh);
/// Counts a launch by the operator in progress on this thread.
void note_launch();
/// Counts a synchronization by the operator in progress on this thread.
void note_wait();
/// Counts a synchronous run of an operator: as a launch if it is synchronous only because of the blocking
/// schedule, else as a wait.
void note_run(const OpDescription& op_info);

/// RAII scope for one operator call. The constructor makes the reports of sync_debug.h, so it may throw; the
/// operator has not run by then.
class OperatorCall {
 public:
  /// For the host engine. `stack` holds the arguments now and the results at the end.
  OperatorCall(const c10::OperatorHandle& op, const OpDescription& op_info, const torch::jit::Stack* stack) {
    if (C10_UNLIKELY(debug_flags::now() != 0)) {
      begin(op, op_info, stack);
    }
  }
  /// For copies, which count as launches.
  OperatorCall(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
    if (C10_UNLIKELY(debug_flags::now() != 0)) {
      begin_copy(dst, src, non_blocking);
    }
    note_launch();
  }
  /// For native kernels. `name` must stay valid for the lifetime of the process.
  explicit OperatorCall(const char* name) {
    if (C10_UNLIKELY(debug_flags::now() != 0)) {
      begin_record(name);
    }
  }
  ~OperatorCall() {
    if (C10_UNLIKELY(recording_.has_value())) {
      end();
    }
    if (C10_UNLIKELY(accesses_.has_value())) {
      end_accesses();
    }
  }
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

 private:
  struct CheckedAccesses {
    TensorAccessScope scope;
    int exceptions;  // std::uncaught_exceptions() at the beginning

    template <typename... Args>
    explicit CheckedAccesses(int now, const Args&... args) : scope(args...), exceptions(now) {}
  };

  struct Recording {
    std::string_view name;
    OperatorRecord record;
    OperatorRecord* outer;  // record of the enclosing call, or null
    int64_t start_ns;
    int exceptions;                  // std::uncaught_exceptions() at the beginning
    const OpDescription* op_info;    // or null
    const torch::jit::Stack* stack;  // or null
  };

  void begin(const c10::OperatorHandle& op, const OpDescription& op_info, const torch::jit::Stack* stack);
  void begin_copy(const at::Tensor& dst, const at::Tensor& src, bool non_blocking);
  void begin_record(std::string_view name, const OpDescription* op_info = nullptr,
                    const torch::jit::Stack* stack = nullptr);
  void end() noexcept;
  void end_accesses() noexcept;

  std::optional<Recording> recording_;
  std::optional<CheckedAccesses> accesses_;
  std::optional<CallSiteScope> site_;  // with the watchdog
};

}  // namespace openreg
