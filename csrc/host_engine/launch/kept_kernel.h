// The kernel that launched work calls, for as long as the work may run.
//
// Note [Operators that go]
// An operator of torch.library goes with its Library: the dispatcher forgets the schema and frees the
// kernels. An operator that was launched before has still to run, and a graph may be replayed at any time. So
// work that calls an operator which can go, or a kernel in Python, owns a reference to the kernel. It is the
// one that was registered at the launch, whatever is registered under the name later.
//
// A boxed kernel, as those in Python are, also asks its operator for the schema. It is called with another
// operator, which has the same schema under a name of ours and never goes. There is one for each schema, so
// registering an operator again and again does not make more of them.
#pragma once

#include "host_engine/ops/op_traits.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>

namespace openreg {

/// The kernel for the CPU that is registered now. Valid until registrations change.
const c10::KernelFunction& cpu_kernel(const c10::OperatorHandle& op);

/// Whether a kernel is in Python, or in C++ that takes any operator.
inline bool is_boxed_only(const c10::KernelFunction& kernel) {
  return !kernel.isValidUnboxed() && !kernel.isValidSymUnboxed();
}

/// Not for two threads at once.
class KeptKernel {
 public:
  void keep(const c10::OperatorHandle& op, const OpTraits& traits, const c10::KernelFunction& kernel);
  /// Frees what it keeps. For a kernel in Python that may take the interpreter's lock.
  void reset() { call_.reset(); }

  explicit operator bool() const { return call_.has_value(); }
  void call(torch::jit::Stack* stack) const;

 private:
  struct Call {
    c10::KernelFunction kernel;
    c10::OperatorHandle op;
  };
  std::optional<Call> call_;
};

}  // namespace openreg
