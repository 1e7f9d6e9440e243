// Registers the engine for nested tensors.
#include "host_engine/engine.h"
#include "host_engine/ops/op_traits.h"
#include "host_engine/registration/layouts.h"
#include "host_engine/registration/register_kernels.h"

namespace openreg {
namespace {

constexpr auto kDeviceKey = c10::DispatchKey::NestedTensorPrivateUse1;
constexpr auto kCpuKey = c10::DispatchKey::NestedTensorCPU;

void run_nested_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (op_traits(op).has(OpFlag::kNestedMetadata) && op.hasKernelForDispatchKey(kCpuKey)) {
    op.redispatchBoxed(c10::DispatchKeySet(kCpuKey), stack);
  } else {
    run_wrapped_operator(op, stack);
  }
}

}  // namespace

void register_nested_engine() {
  register_for_all<&run_nested_operator>(kDeviceKey, kCpuKey);
}

}  // namespace openreg
