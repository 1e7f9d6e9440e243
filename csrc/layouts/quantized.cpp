#include "layouts/quantized.h"

#include "device/device.h"

#include <ATen/quantized/QTensorImpl.h>

namespace openreg {
namespace {

constexpr auto kDeviceKey = c10::DispatchKey::QuantizedPrivateUse1;
constexpr auto kCpuKey = c10::DispatchKey::QuantizedCPU;

at::QTensorImpl* impl_of(const at::Tensor& tensor) {
  return static_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl());
}

// A per-channel quantizer holds tensors, which may be in device memory or may be arguments of the caller. The
// copy has its own tensors, on the host.
at::QuantizerPtr copy_quantizer(const at::Tensor& tensor) {
  at::QuantizerPtr quantizer = impl_of(tensor)->quantizer();
  auto* channels = dynamic_cast<at::PerChannelAffineQuantizer*>(quantizer.get());
  if (channels == nullptr) {
    return quantizer;
  }
  const auto copy_to_host = [](const at::Tensor& parameters) {
    return parameters.to(parameters.options().device(c10::kCPU), /*non_blocking=*/false, /*copy=*/true);
  };
  return at::make_per_channel_affine_quantizer(copy_to_host(channels->scales()),
                                               copy_to_host(channels->zero_points()), channels->axis(),
                                               quantizer->scalar_type());
}

}  // namespace

at::Tensor quantized_over(c10::Storage storage, const at::Tensor& like) {
  const bool is_device = storage.device_type() == kDevice;
  at::Tensor made = at::detail::make_tensor<at::QTensorImpl>(
      std::move(storage), c10::DispatchKeySet(is_device ? kDeviceKey : kCpuKey), like.dtype(),
      copy_quantizer(like));
  const c10::TensorImpl* impl = like.unsafeGetTensorImpl();
  made.unsafeGetTensorImpl()->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  return made;
}

void sync_quantizer(const at::Tensor& tensor, const at::Tensor& alias) {
  impl_of(tensor)->set_quantizer_(copy_quantizer(alias));
}

}  // namespace openreg
