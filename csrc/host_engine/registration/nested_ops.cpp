// Registers the engine for nested tensors.
#include "host_engine/engine.h"
#include "host_engine/ops/op_traits.h"
#include "host_engine/registration/layouts.h"
#include "host_engine/registration/register_kernels.h"

namespace openreg {
namespace {

constexpr auto kOurs = c10::DispatchKey::NestedTensorPrivateUse1;
constexpr auto kTheirs = c10::DispatchKey::NestedTensorCPU;

void run_nested_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (op_traits(op).has(OpFlag::kNestedComposite) && op.hasKernelForDispatchKey(kTheirs)) {
    op.redispatchBoxed(c10::DispatchKeySet(kTheirs), stack);
  } else {
    run_wrapped_operator(op, stack);
  }
}

}  // namespace

void register_nested_engine() {
  register_for_all<&run_nested_operator>(kOurs, kTheirs);
}

}  // namespace openreg
