// An operator that was launched and has not run yet.
//
// Note [Lifetimes of launched operators]
// A launched operator holds aliases, which own no device memory: the program may free a tensor after the
// launch, and its block is reused in stream order. LaunchedOp objects and their alias tensors are recycled.
// The launching thread fills them, a thread that the runtime chooses runs them, and they return through one
// atomic free list. Their contents are freed at the next use, on a launching thread: memory that one thread
// allocates and another frees makes malloc take locks.
//
// Note [Captured operators]
// An operator that is launched on a captured stream belongs to the graph. A replay must leave it unchanged:
// it uses a copy of the arguments, and the same output buffers each time. Replays of one graph never overlap.
#pragma once

#include "host_engine/launch/kernel_reference.h"
#include "host_engine/ops/output_plan.h"
#include "kernel/arg_alias.h"
#include "kernel/launch_settings.h"
#include "kernel/thread_state.h"
#include "random/generator.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>
#include <openreg/openreg.h>

#include <optional>
#include <string>

namespace openreg {

class LaunchedOp {
 public:
  /// Returns an object for this thread to fill. Call submit or recycle on it.
  static LaunchedOp* take();
  static void recycle(LaunchedOp* op);
  /// Recycles a linked list of objects.
  static void recycle_all(LaunchedOp* first);

  /// The runtime's kernel for launched operators. Its argument block is a LaunchedOp*.
  static orKernel kernel_named(const char* name);

  /// Sets the operator. `plan` may be null for an operator without new results. `takes_output_buffers`: the
  /// kernel keeps no references to its results, so it may allocate them from the output buffers.
  void set(const c10::OperatorHandle& op, OutputPlanPtr plan, bool takes_output_buffers);
  /// Sets the kernel to call, for an operator that may be deregistered before it runs.
  void keep(const c10::OperatorHandle& op, const OpTraits& traits, const c10::KernelFunction& kernel) {
    kept_.keep(op, traits, kernel);
  }
  void add(c10::IValue value) { stack_.push_back(std::move(value)); }
  /// Copies a host scalar. A wrapped number is immutable and is not copied.
  at::Tensor copy_host(const at::Tensor& tensor) {
    const bool may_change = tensor.defined() && !tensor.unsafeGetTensorImpl()->is_wrapped_number();
    held_.push_back(may_change ? tensor.clone() : tensor);
    return held_.back();
  }
  void add_alias(const at::Tensor& tensor, bool writes) { stack_.push_back(make_alias(tensor, writes)); }
  /// Makes an alias that lives as long as this object.
  at::Tensor make_alias(const at::Tensor& tensor, bool writes);
  /// Argument `argument` becomes a CPU generator at `place` when the kernel runs.
  void set_random(int argument, PhiloxState place) {
    generator_ = argument;
    random_ = std::move(place);
  }
  /// Sets the launch site, for error messages.
  void set_site(std::string site) { site_ = std::move(site); }
  /// Adds the memory of the next new result.
  void add_output_buffer(void* kernel_ptr, size_t bytes) {
    output_buffers_.push_back({kernel_ptr, bytes, false});
  }

  /// Submits it to the stream. If the runtime returns an error, recycles the object and throws.
  void submit(const orKernel& kernel, orStream_t stream);

 private:
  static orError_t run(void* args, char* why, size_t why_size);
  /// The same with the memory check.
  static orError_t run_checked(void* args, char* why, size_t why_size);
  static void release(void* args);

  at::Tensor fill_alias(const at::Tensor& tensor, bool writes);
  void execute();
  void execute(torch::jit::Stack& stack);
  /// Describes the arguments and the launch site, for error messages.
  std::string arguments_text() const;
  std::string launch_context(const std::string& site) const;
  void place_results(const torch::jit::Stack& stack);
  /// Restores the storages of aliases that the kernel reallocated. False if there were any.
  bool restore_aliases();

  std::optional<c10::OperatorHandle> op_;
  KernelReference kept_;  // may be empty
  OutputPlanPtr plan_;
  torch::jit::Stack stack_;
  c10::SmallVector<OutputBuffer, 2> output_buffers_;
  c10::SmallVector<at::Tensor, 4> aliases_;  // the first used_ of them are in use
  size_t used_ = 0;
  c10::SmallVector<AliasPlace, 2> written_;
  c10::SmallVector<at::Tensor, 2> held_;
  std::string site_;
  int generator_ = -1;
  PhiloxState random_;
  bool captured_ = false;  // belongs to a graph and may run many times
  bool consumed_ = false;  // has run, and its arguments are moved out
  bool takes_output_buffers_ = true;
  torch::jit::Stack scratch_;
  LaunchSettings settings_;
  bool deterministic_ = false;
  LaunchedOp* next_ = nullptr;
};

}  // namespace openreg
