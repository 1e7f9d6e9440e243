// Who runs on the engine: every operator that the device has no kernel of its own for.
//
// The fallback serves operators that have no kernel for the device at all. Those for which PyTorch has a
// default are not among them: the default is made of other operators, or infers the shape, allocates and
// calls the out form. It would work, and cost several launches, so where the CPU has a kernel of its own the
// engine takes the operator as one. Convolutions choose their kernel by the device and would find none for
// ours; the engine takes them before they choose.
#include "host_engine/engine.h"
#include "host_engine/ops/op_rules.h"
#include "host_engine/registration/layouts.h"
#include "host_engine/registration/register_kernels.h"

#include <ATen/native/Resize.h>
#include <torch/library.h>

namespace openreg {
namespace {

bool has_default(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
         // A default that also serves autograd may be replaced only where there is a derivative without it.
         (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
          op.hasKernelForDispatchKey(c10::DispatchKey::Autograd));
}

bool has_own_cpu_kernel_under_a_default(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && has_default(op) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
}

// The label shows whose kernel it is, in op_support and in the dispatcher's tables.
torch::CppFunction engine() {
  return torch::CppFunction::makeFromBoxedFunction<&run_operator>().debug(kEngineLabel);
}

// The CPU's kernel writes as many numbers as it reads, however small the output is.
void resize_and_run(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t begin = stack->size() - op.schema().arguments().size();
  at::native::resize_output(stack->back().toTensor(), (*stack)[begin].toTensor().sizes());
  run_operator(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(engine());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const OpRule& rule : op_rules()) {
    if (rule.flag == OpFlag::kChoosesByDevice) {
      m.impl(std::string(rule.pattern).c_str(), engine());
    }
  }
  m.impl("rrelu_with_noise.out",
         torch::CppFunction::makeFromBoxedFunction<&resize_and_run>().debug(kEngineLabel));
}

}  // namespace

void register_engine() {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNamesForDispatchKey(c10::DispatchKey::CPU)) {
    const auto op = dispatcher.findOp(name);
    if (name.getNamespace() == "aten" && op.has_value() && has_own_cpu_kernel_under_a_default(*op)) {
      register_kernel<&run_operator>(name, c10::DispatchKey::PrivateUse1);
    }
  }
  register_sparse_engine();
  register_nested_engine();
  register_quantized_engine();
}

}  // namespace openreg
