// Warnings of operators: given at the call, in the calling thread, as often as on CUDA.
//
// Note [Warnings]
// A launched kernel runs on a thread without the caller's warning handler, so its warnings are dropped
// (kernel/kernel_guard.h). A call whose kernel warns is therefore not launched: it runs synchronously, and
// the caller's handler gets the kernel's warning. Shape inference, which makes many of the kernel's checks,
// and `may_warn` tell whether a call may warn. Whether it did decides about the next call with the same key,
// so a warning that is given once per process costs two synchronous calls. During a capture the call is
// launched anyway, without the warning.
#pragma once

#include "host_engine/ops/output_plan.h"
#include "kernel/thread_state.h"

#include <ATen/core/stack.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>
#include <vector>

namespace openreg {

/// RAII scope that collects the warnings of this thread instead of reporting them. `of_kernels`: also those
/// that a KernelGuard would drop, as in a dry run.
class WarningCollector final : public c10::WarningHandler {
 public:
  explicit WarningCollector(bool of_kernels)
      : before_(std::exchange(thread_state.kernel_warnings, of_kernels ? this : nullptr)) {}
  ~WarningCollector() override { thread_state.kernel_warnings = before_; }
  WarningCollector(const WarningCollector&) = delete;
  WarningCollector& operator=(const WarningCollector&) = delete;

  void process(const c10::Warning& warning) override { warnings_.push_back(warning); }
  std::vector<c10::Warning> take() { return std::move(warnings_); }

 private:
  c10::WarningHandler* const before_;
  std::vector<c10::Warning> warnings_;
  const c10::WarningUtils::WarningHandlerGuard guard_{this};
};

/// RAII scope that records the warnings of this thread and forwards them to the previous handler.
class WarningObserver final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    texts_.push_back(warning.msg());
    before_->process(warning);
  }
  bool any() const { return !texts_.empty(); }
  /// Forwards those of `warnings` that were not forwarded before.
  void add_missing(const std::vector<c10::Warning>& warnings);

 private:
  c10::WarningHandler* const before_ = c10::WarningUtils::get_warning_handler();
  std::vector<std::string> texts_;
  const c10::WarningUtils::WarningHandlerGuard guard_{this};
};

/// For a call that was not launched: the warnings of its inference, and the plan to update with the outcome.
struct CallWarnings {
  OutputPlanPtr plan;
  std::vector<c10::Warning> inferred;

  bool expected() const { return plan != nullptr || !inferred.empty(); }
};

/// Whether the kernel may warn about this call for a reason that inference does not check. A false positive
/// costs a synchronous call.
bool may_warn(const c10::OperatorHandle& op, const OpTraits& traits, const torch::jit::Stack& stack);

}  // namespace openreg
