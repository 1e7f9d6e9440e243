// Registration of one boxed kernel for all operators that the CPU has for a kind of tensor.
#pragma once

#include "operators/engine.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace openreg {

/// Gives `kernel` the operators that have kernels for `cpu_key` and none for `our_key`. The fallback would
/// not get them all: PyTorch has a default for some, and the default of some is to refuse.
template <c10::BoxedKernel::BoxedKernelFunction* kernel>
void take_operators(c10::DispatchKey our_key, c10::DispatchKey cpu_key) {
  // Leaked: registrations end with the process.
  auto* m = new torch::Library(torch::Library::IMPL, "aten", our_key, __FILE__, __LINE__);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNamesForDispatchKey(cpu_key)) {
    const auto op = dispatcher.findOp(name);
    if (name.getNamespace() == "aten" && op.has_value() && !op->hasKernelForDispatchKey(our_key)) {
      m->impl(c10::toString(name).c_str(),
              torch::CppFunction::makeFromBoxedFunction<kernel>().debug(kEngineLabel));
    }
  }
}

}  // namespace openreg
