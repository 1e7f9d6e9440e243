// An operator that was launched and has not run yet.
//
// Note [Lifetimes of launched operators]
// A launched operator holds aliases, which own no device memory: a tensor that is freed after the launch is
// freed, and its block is reused in stream order. LaunchedOp objects are recycled, and with them their alias
// tensors. They are filled on the launching thread, run on a thread that the runtime chooses, and come back
// through one atomic list. What the launching thread allocated it also frees, at the next use: memory that
// one thread allocates and another frees makes malloc take locks.
//
// Note [Captured operators]
// An operator that is launched on a captured stream belongs to the graph. A run must leave it unchanged: it
// uses a copy of the arguments, and the same output buffers each time. Runs of one graph never overlap.
#pragma once

#include "host_engine/launch/kept_kernel.h"
#include "host_engine/ops/output_plan.h"
#include "kernel/arg_alias.h"
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
  /// A work object for this thread to fill. Give it to submit, or back with recycle.
  static LaunchedOp* take();
  static void recycle(LaunchedOp* work);
  /// All of a list.
  static void put_back(LaunchedOp* first);

  /// How the runtime calls work: a kernel whose argument block is a LaunchedOp*.
  static orKernel kernel_named(const char* name);

  /// Sets what to run. `plan` may be null: nothing is returned then.
  /// `takes_output_buffers`: the kernel keeps nothing that it makes, so its results may be made where they
  /// belong.
  void set(const c10::OperatorHandle& op, OutputPlanPtr plan, bool takes_output_buffers);
  /// The kernel to call, where the operator may be gone when the work runs.
  void keep(const c10::OperatorHandle& op, const OpTraits& traits, const c10::KernelFunction& kernel) {
    kept_.keep(op, traits, kernel);
  }
  void add(c10::IValue value) { stack_.push_back(std::move(value)); }
  /// A number on the host, with the value that it has now. A wrapped number is nobody's to change.
  at::Tensor copy_host(const at::Tensor& tensor) {
    const bool may_change = tensor.defined() && !tensor.unsafeGetTensorImpl()->is_wrapped_number();
    held_.push_back(may_change ? tensor.clone() : tensor);
    return held_.back();
  }
  void add_alias(const at::Tensor& tensor, bool writes) { stack_.push_back(make_alias(tensor, writes)); }
  /// An alias that lives as long as the work.
  at::Tensor make_alias(const at::Tensor& tensor, bool writes);
  /// Argument `argument` is a generator, and shall be one at that place.
  void set_random(int argument, RandomPlace place) {
    generator_ = argument;
    random_ = std::move(place);
  }
  /// Where it was launched, for the words of its failure.
  void set_site(std::string site) { site_ = std::move(site); }
  /// Memory for the next fresh result.
  void output_buffer(void* kernel_ptr, size_t bytes) {
    output_buffers_.push_back({kernel_ptr, bytes, false});
  }

  /// Queues it. Throws what the runtime says; the work is recycled in any case.
  void submit(const orKernel& kernel, orStream_t stream);

 private:
  static orError_t run(void* args, char* why, size_t why_size);
  static void release(void* args);

  at::Tensor fill_alias(const at::Tensor& tensor, bool writes);
  void execute();
  void execute(torch::jit::Stack& stack);
  /// The arguments and the place of the launch, in words.
  std::string circumstances() const;
  void place_results(const torch::jit::Stack& stack);
  /// Aliases that the kernel took elsewhere are where they were. False if there were any.
  bool restore_aliases();

  std::optional<c10::OperatorHandle> op_;
  KeptKernel kept_;  // or nothing
  OutputPlanPtr plan_;
  torch::jit::Stack stack_;
  c10::SmallVector<OutputBuffer, 2> output_buffers_;
  c10::SmallVector<at::Tensor, 4> aliases_;  // the first used_ of them are in use
  size_t used_ = 0;
  c10::SmallVector<AliasPlace, 2> written_;
  c10::SmallVector<at::Tensor, 2> held_;
  std::string site_;
  int generator_ = -1;
  RandomPlace random_;
  bool captured_ = false;  // belongs to a graph and runs again and again
  bool spent_ = false;     // has run, and has nothing left to run with
  bool takes_output_buffers_ = true;
  torch::jit::Stack scratch_;
  int threads_ = 0;
  unsigned float_mode_ = 0;
  bool gradients_ = true;  // are wanted; some kernels then return what backward needs
  bool deterministic_ = false;
  LaunchedOp* next_ = nullptr;
};

}  // namespace openreg
