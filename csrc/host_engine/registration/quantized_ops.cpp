// Registers the engine for quantized tensors.
#include "device/device.h"
#include "host_engine/engine.h"
#include "host_engine/ops/op_traits.h"
#include "host_engine/registration/layouts.h"
#include "host_engine/registration/register_kernels.h"
#include "kernel/arg_alias.h"
#include "kernel/default_kernel.h"

#include <torch/library.h>

namespace openreg {
namespace {

constexpr auto kDeviceKey = c10::DispatchKey::QuantizedPrivateUse1;
constexpr auto kCpuKey = c10::DispatchKey::QuantizedCPU;

void run_quantized_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (op_traits(op).has(OpFlag::kQuantizedMetadata)) {
    op.redispatchBoxed(c10::DispatchKeySet(kCpuKey), stack);
  } else {
    run_wrapped_operator(op, stack);
  }
}

// An integer tensor over the memory of a quantized tensor.
at::Tensor integers_of(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const auto key = on_device(tensor) ? c10::DispatchKey::PrivateUse1 : c10::DispatchKey::CPU;
  at::Tensor integers = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(tensor.storage()), c10::DispatchKeySet(key),
      c10::scalarTypeToTypeMeta(c10::toUnderlying(tensor.scalar_type())));
  integers.unsafeGetTensorImpl()->set_sizes_and_strides(impl->sizes(), impl->strides(),
                                                        impl->storage_offset());
  return integers;
}

at::Tensor copy_from(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  TORCH_CHECK(src.is_quantized() && dst.is_quantized(),
              "cannot copy between a quantized and a non-quantized tensor on different devices: quantize or "
              "dequantize one of them first");
  integers_of(dst).copy_(integers_of(src), non_blocking);
  return dst;
}

// PyTorch's default kernel quantizes with host reads of the memory, so the engine handles that case.
void copy_(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t begin = stack->size() - 3;
  const at::Tensor self = (*stack)[begin].toTensor();
  const at::Tensor source = (*stack)[begin + 1].toTensor();
  if (self.is_quantized() && !source.is_quantized()) {
    (*stack)[begin + 1] = source.to(self.device());
    run_wrapped_operator(op, stack);
  } else {
    op.redispatchBoxed(kDefault, stack);
  }
}

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_quantized_operator>().debug(kEngineLabel));
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("_copy_from", copy_from);
  m.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&copy_>());
}

}  // namespace

void register_quantized_engine() {
  register_for_all<&run_quantized_operator>(kDeviceKey, kCpuKey);
}

}  // namespace openreg
