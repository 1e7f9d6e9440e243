// Quantized tensors: integer values on the device, and a quantizer (scale, zero point) on the host.
#pragma once

#include <ATen/core/Tensor.h>

namespace openreg {

/// A quantized tensor over `storage`, on its device, with the metadata and the quantizer of `like`.
at::Tensor quantized_over(c10::Storage storage, const at::Tensor& like);

/// Copies the quantizer of `alias` to `tensor`, after a kernel wrote to `alias`.
void sync_quantizer(const at::Tensor& tensor, const at::Tensor& alias);

}  // namespace openreg
