// Registers one boxed kernel for all operators with a CPU kernel for a kind of tensor.
#pragma once

#include "host_engine/engine.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace openreg {

/// Registers `kernel` for an operator and a dispatch key, for the life of the process. As torch::Library, but
/// without parsing names, which adds a millisecond to `import torch` for a few hundred operators.
template <c10::BoxedKernel::BoxedKernelFunction* kernel>
void register_kernel(const c10::OperatorName& name, c10::DispatchKey key) {
  // Leaked: never deregistered.
  new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerImpl(
      name, key, c10::KernelFunction::makeFromBoxedFunction<kernel>(), std::nullopt, nullptr, kEngineLabel));
}

/// Registers `kernel` for the operators with a kernel for `cpu_key` and none for `device_key`. A fallback
/// would not reach operators with a default kernel, some of which only throw. And it adds two milliseconds
/// to `import torch`, since PyTorch then updates every operator. Not for c10d: a collective is called on a
/// process group of the device, and not on aliases of its tensors.
template <c10::BoxedKernel::BoxedKernelFunction* kernel>
void register_for_all(c10::DispatchKey device_key, c10::DispatchKey cpu_key) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNamesForDispatchKey(cpu_key)) {
    const auto op = dispatcher.findOp(name);
    if (op.has_value() && !op->hasKernelForDispatchKey(device_key) && !name.name.starts_with("c10d::")) {
      register_kernel<kernel>(name, device_key);
    }
  }
}

}  // namespace openreg
