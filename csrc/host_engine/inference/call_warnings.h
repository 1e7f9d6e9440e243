// Warnings of operators: given at the call, to the caller, as often as on CUDA.
//
// Note [Warnings]
// A launched kernel runs on a thread that has nobody to warn, so its warnings are dropped
// (kernel/kernel_guard.h). A call whose kernel warns is therefore not launched: it runs at its call, where
// the caller's handler gets what the kernel says, in the kernel's words. Whether it may warn is known from
// the inference of its shapes, which makes many of the kernel's checks, and from `may_warn`. Whether it did
// decides about the next call with the same key, so a warning that is given once per process costs two
// synchronous calls. A capture launches in any case, without the warning.
#pragma once

#include "host_engine/ops/output_plan.h"
#include "kernel/thread_state.h"

#include <ATen/core/stack.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>
#include <vector>

namespace openreg {

/// Keeps the warnings of this thread while it lives; nobody else sees them. `of_kernels`: also those of
/// kernels that run quietly, as they do before a launch.
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

/// While it lives, passes the warnings of this thread on to the handler before it, and notes them.
class WarningObserver final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    texts_.push_back(warning.msg());
    before_->process(warning);
  }
  bool any() const { return !texts_.empty(); }
  /// Gives the warnings that were not among those passed on.
  void add_missing(const std::vector<c10::Warning>& warnings);

 private:
  c10::WarningHandler* const before_ = c10::WarningUtils::get_warning_handler();
  std::vector<std::string> texts_;
  const c10::WarningUtils::WarningHandlerGuard guard_{this};
};

/// For a call that was not launched: what its inference warned about, and the plan that its warnings decide
/// about.
struct CallWarnings {
  OutputPlanPtr plan;
  std::vector<c10::Warning> inferred;

  bool expected() const { return plan != nullptr || !inferred.empty(); }
};

/// Whether the kernel may warn about this call for a reason that inference does not look at. True too often
/// costs a synchronous call.
bool may_warn(const c10::OperatorHandle& op, const OpTraits& traits, const torch::jit::Stack& stack);

}  // namespace openreg
