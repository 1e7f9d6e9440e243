// Registration of one boxed kernel for all operators that the CPU has for a kind of tensor.
#pragma once

#include "host_engine/engine.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace openreg {

/// Gives `kernel` the operator for tensors of `key`, for the rest of the process. What torch::Library does,
/// without the parsing of the name that costs `import torch` a millisecond for a few hundred operators.
template <c10::BoxedKernel::BoxedKernelFunction* kernel>
void register_kernel(const c10::OperatorName& name, c10::DispatchKey key) {
  // Leaked: registrations end with the process.
  new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerImpl(
      name, key, c10::KernelFunction::makeFromBoxedFunction<kernel>(), std::nullopt, nullptr, kEngineLabel));
}

/// Gives `kernel` the operators that have kernels for `cpu_key` and none for `our_key`. A fallback would not
/// get them all, since PyTorch has a default for some and the default of some is to refuse; and it costs
/// `import torch` two milliseconds, since PyTorch then looks at every operator.
template <c10::BoxedKernel::BoxedKernelFunction* kernel>
void register_for_all(c10::DispatchKey our_key, c10::DispatchKey cpu_key) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNamesForDispatchKey(cpu_key)) {
    const auto op = dispatcher.findOp(name);
    if (op.has_value() && !op->hasKernelForDispatchKey(our_key)) {
      register_kernel<kernel>(name, our_key);
    }
  }
}

}  // namespace openreg
