// Registers the engine for every operator without a device kernel.
//
// The fallback serves operators without any kernel for the device. It does not reach operators with a default
// kernel in PyTorch, which calls other operators, or infers the shape, allocates and calls the out form. The
// default works, but needs several launches. So where the CPU has a kernel, the engine is registered by name
// and launches it once. Convolutions select a kernel by device type and have none for PrivateUse1, so the
// engine is registered for them too.
#include "host_engine/engine.h"
#include "host_engine/ops/op_rules.h"
#include "host_engine/registration/layouts.h"
#include "host_engine/registration/register_kernels.h"

#include <ATen/Context.h>
#include <ATen/native/Resize.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/library.h>

namespace openreg {
namespace {

bool has_default(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
         // CompositeImplicitAutograd may be replaced only if the operator has an autograd kernel.
         (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
          op.hasKernelForDispatchKey(c10::DispatchKey::Autograd));
}

bool has_cpu_kernel_and_default(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && has_default(op) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
}

// The label identifies the engine's kernels in op_support and in the dispatcher's tables.
torch::CppFunction engine() {
  return torch::CppFunction::makeFromBoxedFunction<&run_operator>().debug(kEngineLabel);
}

// The CPU kernel writes as many elements as it reads, even if the output is smaller.
void resize_and_run(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t begin = stack->size() - op.schema().arguments().size();
  at::native::resize_output(stack->back().toTensor(), (*stack)[begin].toTensor().sizes());
  run_operator(op, stack);
}

// torch.jit.trace does not record convolution, but what its default kernel calls.
void run_convolution(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (C10_LIKELY(!torch::jit::tracer::isTracing())) {
    run_operator(op, stack);
    return;
  }
  static const c10::OperatorHandle recorded =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_convolution", "");
  const at::Context& context = at::globalContext();
  torch::jit::push(stack, context.benchmarkCuDNN(), context.deterministicCuDNN(), context.userEnabledCuDNN(),
                   context.allowTF32CuDNN());
  recorded.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(engine());
}

// With a kernel for the device, such an operator would have no gradient.
bool is_composite(std::string_view name) {
  const auto op = c10::Dispatcher::singleton().findOp(torch::jit::parseName(std::string(name)));
  return op.has_value() && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const OpRule& rule : op_rules()) {
    if (rule.flag == OpFlag::kChoosesByDevice && !is_composite(rule.pattern)) {
      m.impl(std::string(rule.pattern).c_str(), engine());
    }
  }
  m.impl("convolution", torch::CppFunction::makeFromBoxedFunction<&run_convolution>().debug(kEngineLabel));
  m.impl("rrelu_with_noise.out",
         torch::CppFunction::makeFromBoxedFunction<&resize_and_run>().debug(kEngineLabel));
}

}  // namespace

void register_engine() {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNamesForDispatchKey(c10::DispatchKey::CPU)) {
    const auto op = dispatcher.findOp(name);
    if (name.getNamespace() == "aten" && op.has_value() && has_cpu_kernel_and_default(*op)) {
      register_kernel<&run_operator>(name, c10::DispatchKey::PrivateUse1);
    }
  }
  register_sparse_engine();
  register_nested_engine();
  register_quantized_engine();
}

}  // namespace openreg
