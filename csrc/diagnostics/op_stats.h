// What the engine notes of each operator, and of all together.
//
// Note [Counting]
// Four totals are always counted: by each thread for itself, so that counting costs an increment. Records of
// each operator are kept only while somebody has asked for them, also by each thread for itself. Whoever
// reads adds up the threads; what a thread has counted outlives it. A sum is exact once the calls that it is
// about have returned. Process-wide: autograd launches from threads of its own.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include "common/export.h"
#include "diagnostics/debug_flags.h"
#include "diagnostics/op_info.h"

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
  uint64_t launches = 0;  // given to the device with no need to wait for it
  uint64_t hits = 0;      // of the launch cache
  uint64_t misses = 0;    // of the launch cache
  uint64_t waits = 0;     // the host waited for the device because of the call
  uint64_t bytes = 0;     // of the results, or copied
  int64_t host_ns = 0;    // from the call to its return

  OperatorRecord& operator+=(const OperatorRecord& other);
};

struct OperatorTotals {
  uint64_t launches = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t waits = 0;
};

/// Totals since the process began.
OPENREG_EXPORT OperatorTotals operator_totals();

/// Keeps records until as many calls have said `false` as have said `true`.
OPENREG_EXPORT void record_operators(bool on);
/// The records since the last reset, by the operators' names.
OPENREG_EXPORT std::map<std::string, OperatorRecord, std::less<>> operator_records();
OPENREG_EXPORT void reset_operator_records();

/// The engine has looked for a plan. `fresh`: it was not in the launch cache.
void note_plan(bool fresh);
/// The operator in progress on this thread is with the device.
void note_launch();
/// The operator in progress on this thread makes the host wait.
void note_wait();
/// The engine runs an operator here and now. That is a wait, unless only the blocking schedule asks for it.
void note_run(const OpInfo& op_info);

/// RAII scope for one operator call. The constructor makes the reports of sync_debug.h, so it may throw;
/// nothing has happened by then.
class OperatorCall {
 public:
  /// On the engine. `stack` has the arguments now and the results at the end.
  OperatorCall(const c10::OperatorHandle& op, const OpInfo& op_info, const torch::jit::Stack* stack) {
    if (C10_UNLIKELY(debug_flags::now() != 0)) {
      begin(op, op_info, stack);
    }
  }
  /// A copy, which is a launch.
  OperatorCall(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
    if (C10_UNLIKELY(debug_flags::now() != 0)) {
      begin_copy(dst, src, non_blocking);
    }
    note_launch();
  }
  /// A kernel of ours. The name has to stay valid for ever.
  explicit OperatorCall(const char* name) {
    if (C10_UNLIKELY(debug_flags::now() != 0)) {
      begin_record(name);
    }
  }
  ~OperatorCall() {
    if (C10_UNLIKELY(recording_.has_value())) {
      end();
    }
  }
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

 private:
  struct Recording {
    std::string_view name;
    OperatorRecord record;
    OperatorRecord* outer;  // of the call that this one is made from
    int64_t start_ns;
    int exceptions;                  // in flight at the beginning
    const OpInfo* op_info;           // or null
    const torch::jit::Stack* stack;  // or null
  };

  void begin(const c10::OperatorHandle& op, const OpInfo& op_info, const torch::jit::Stack* stack);
  void begin_copy(const at::Tensor& dst, const at::Tensor& src, bool non_blocking);
  void begin_record(std::string_view name, const OpInfo* op_info = nullptr,
                    const torch::jit::Stack* stack = nullptr);
  void end() noexcept;

  std::optional<Recording> recording_;
};

}  // namespace openreg
