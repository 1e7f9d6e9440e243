// Registers the engine for sparse tensors.
#include "device/on_device.h"
#include "host_engine/engine.h"
#include "host_engine/ops/op_traits.h"
#include "host_engine/registration/layouts.h"
#include "host_engine/registration/register_kernels.h"

#include <c10/core/DeviceGuard.h>

#include <optional>

namespace openreg {
namespace {

// The device of the result: a device argument, or else that of the first tensor.
std::optional<c10::Device> device_of_call(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::optional<c10::Device> found;
  for (size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    if (value.isDevice() && value.toDevice().type() == kDevice && value.toDevice().has_index()) {
      return value.toDevice();
    }
    if (!found.has_value() && value.isTensor() && on_device(value.toTensor())) {
      found = value.toTensor().device();
    }
  }
  return found;
}

template <c10::DispatchKey kCpuKey>
void run_sparse_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  // PyTorch's sparse kernels require the device of the result to be current.
  const c10::OptionalDeviceGuard guard(device_of_call(op, *stack));
  if (op_traits(op).has(OpFlag::kSparseMetadata)) {
    op.redispatchBoxed(c10::DispatchKeySet(kCpuKey), stack);
  } else {
    run_wrapped_operator(op, stack);
  }
}

}  // namespace

void register_sparse_engine() {
  using c10::DispatchKey;
  register_for_all<&run_sparse_operator<DispatchKey::SparseCPU>>(DispatchKey::SparsePrivateUse1,
                                                                 DispatchKey::SparseCPU);
  register_for_all<&run_sparse_operator<DispatchKey::SparseCsrCPU>>(DispatchKey::SparseCsrPrivateUse1,
                                                                    DispatchKey::SparseCsrCPU);
}

}  // namespace openreg
