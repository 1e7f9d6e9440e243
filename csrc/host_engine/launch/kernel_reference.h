// Keeps the kernel of a launched operator alive until it has run.
//
// Note [Deregistered operators]
// A torch.library operator is deregistered with its Library: the dispatcher removes the schema and frees the
// kernels. A launched operator may still be pending then, and a graph may be replayed at any time. So a
// launch of an operator that can be deregistered, or of a Python kernel, owns a reference to the kernel that
// was registered at the launch. Later registrations do not affect it.
//
// A boxed kernel, such as a Python kernel, also reads the schema from its operator handle. It is called with
// the handle of another operator, which has the same schema under a private name and is never deregistered.
// There is one for each schema, so registering an operator repeatedly does not create more of them.
#pragma once

#include "host_engine/ops/op_traits.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>

namespace openreg {

/// The CPU kernel that is registered now. Valid until registrations change.
const c10::KernelFunction& cpu_kernel(const c10::OperatorHandle& op);

/// Whether a kernel has no unboxed form: a Python kernel, or a generic boxed kernel in C++.
inline bool is_boxed_only(const c10::KernelFunction& kernel) {
  return !kernel.isValidUnboxed() && !kernel.isValidSymUnboxed();
}

/// A kernel and the operator handle to call it with, or empty. Not thread-safe.
class KernelReference {
 public:
  void keep(const c10::OperatorHandle& op, const OpTraits& traits, const c10::KernelFunction& kernel);
  /// Releases the kernel. Releasing a Python kernel may take the GIL.
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
