// Declares the tensors that launches read and write, for the race check; see Note [Race check] in
// race_check/race_check.h.
//
// Operators of the host engine and copies declare their tensors by an OperatorCall (op_stats.h). A native
// kernel declares them by its aliases: alias() collects them for the next launch of the thread.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "common/export.h"
#include "diagnostics/op_info.h"
#include "race_check/race_check.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <optional>

namespace openreg {

/// Start and stop the check, with the checks of host accesses.
OPENREG_EXPORT void start_race_check();
OPENREG_EXPORT void stop_race_check();

/// Starts the memory check, for the rest of the process; see memory_check/memory_check.h. Returns false if it
/// is not available.
OPENREG_EXPORT bool start_memory_check(size_t quarantine);

/// Checks an access of the host, such as Tensor.numpy(), if the tensor is in pinned memory.
OPENREG_EXPORT void check_host_access(const at::Tensor& tensor, bool write, const char* op);

/// Begins to check host accesses: a stream is about to access pinned memory.
void watch_host_accesses();

/// The bytes of a dense tensor. Returns false if it has none.
bool make_access(const at::Tensor& tensor, bool write, races::Access* access);

/// Declares a copy: one launch on the stream. Pinned memory is accessed by the stream.
void declare_copy(const at::Tensor& dst, const at::Tensor& src, c10::Stream stream);

/// Collects a tensor for the next launch_collected of this thread. No effect inside of a TensorAccessScope.
void collect_access(const at::Tensor& tensor, bool write);
/// Declares the collected tensors as one launch. `name` lives as long as the process.
void launch_collected(const char* name, c10::Stream stream);

/// RAII scope for one operator call. Its arguments and results are declared when it has returned: a call that
/// throws has launched nothing.
class TensorAccessScope {
 public:
  /// For a copy, which declares its tensors itself.
  TensorAccessScope();
  /// For an operator. `stack` has the arguments now and the results at the end; the operator synchronizes if
  /// `synchronizes`.
  TensorAccessScope(const c10::OperatorHandle& op, const OpDescription& op_info,
                    const torch::jit::Stack* stack, bool synchronizes);
  ~TensorAccessScope();
  TensorAccessScope(const TensorAccessScope&) = delete;
  TensorAccessScope& operator=(const TensorAccessScope&) = delete;

  /// Declares the launch. Called if the operator has returned.
  void finish();

 private:
  CallSiteScope site_;
  const OpDescription* op_info_ = nullptr;
  const torch::jit::Stack* stack_ = nullptr;
  bool synchronizes_ = false;
  std::optional<c10::Stream> stream_;
  c10::SmallVector<races::Access, 6> accesses_;
};

}  // namespace openreg
