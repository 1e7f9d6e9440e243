// Who runs on the engine: every operator that the device has no kernel of its own for.
//
// The fallback serves operators that have no kernel for the device at all. Structured operators are not among
// them: PyTorch's own default for those infers the shape, allocates the output and calls the out form. It
// would work, and cost the launch twice, so the engine takes their functional and in-place forms directly.
// Convolutions choose their kernel by the device and would find none for ours; the engine takes them before
// they choose.
#include "operators/engine.h"

#include <torch/library.h>

namespace openreg {
namespace {

bool has_own_cpu_kernel_under_a_default(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
}

// The label tells the survey, and the dispatcher's tables, whose kernel it is.
torch::CppFunction engine() {
  return torch::CppFunction::makeFromBoxedFunction<&run_operator>().debug(kEngineLabel);
}

constexpr const char* kChooseByDevice[] = {"convolution", "_convolution", "convolution_backward"};

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(engine());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : kChooseByDevice) {
    m.impl(name, engine());
  }
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNamesForDispatchKey(c10::DispatchKey::CPU)) {
    const auto op = dispatcher.findOp(name);
    if (name.getNamespace() == "aten" && op.has_value() && has_own_cpu_kernel_under_a_default(*op)) {
      m.impl(c10::toString(name).c_str(), engine());
    }
  }
}

}  // namespace
}  // namespace openreg
