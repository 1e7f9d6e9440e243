// Quantized tensors: integers on the device, and on the host the quantizer that says what they mean.
#pragma once

#include <ATen/core/Tensor.h>

namespace openreg {

/// A quantized tensor over `storage`, on its device, with the metadata and the quantizer of `like`.
at::Tensor quantized_over(c10::Storage storage, const at::Tensor& like);

/// After a kernel wrote to `alias` of `tensor`: its integers mean what the kernel says.
void sync_quantizer(const at::Tensor& tensor, const at::Tensor& alias);

}  // namespace openreg
