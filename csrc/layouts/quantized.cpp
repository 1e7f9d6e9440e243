#include "layouts/quantized.h"

#include "device/device.h"

#include <ATen/quantized/QTensorImpl.h>

namespace openreg {
namespace {

constexpr auto kOurs = c10::DispatchKey::QuantizedPrivateUse1;
constexpr auto kTheirs = c10::DispatchKey::QuantizedCPU;

at::QTensorImpl* impl_of(const at::Tensor& tensor) {
  return static_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl());
}

// A quantizer of channels holds tensors. They may lie in device memory, or be somebody's arguments: the copy
// has its own, on the host.
at::QuantizerPtr own_quantizer(const at::Tensor& tensor) {
  const at::QuantizerPtr quantizer = impl_of(tensor)->quantizer();
  auto* channels = dynamic_cast<at::PerChannelAffineQuantizer*>(quantizer.get());
  if (channels == nullptr) {
    return quantizer;
  }
  const auto own = [](const at::Tensor& parameters) {
    return parameters.to(parameters.options().device(c10::kCPU), /*non_blocking=*/false, /*copy=*/true);
  };
  return at::make_per_channel_affine_quantizer(own(channels->scales()), own(channels->zero_points()),
                                               channels->axis(), quantizer->scalar_type());
}

}  // namespace

at::Tensor quantized_over(c10::Storage storage, const at::Tensor& like) {
  const bool ours = storage.device_type() == kDevice;
  at::Tensor made = at::detail::make_tensor<at::QTensorImpl>(
      std::move(storage), c10::DispatchKeySet(ours ? kOurs : kTheirs), like.dtype(), own_quantizer(like));
  const c10::TensorImpl* impl = like.unsafeGetTensorImpl();
  made.unsafeGetTensorImpl()->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  return made;
}

void sync_quantizer(const at::Tensor& tensor, const at::Tensor& alias) {
  impl_of(tensor)->set_quantizer_(own_quantizer(alias));
}

}  // namespace openreg
