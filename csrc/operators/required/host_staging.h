// Copies through host memory, for a device that cannot run host code and has no function for the copy.
// Synchronous.
#pragma once

#include <ATen/core/Tensor.h>

namespace openreg {

/// A CPU tensor with the values, sizes and strides of a device tensor.
at::Tensor read_to_host(const at::Tensor& device_tensor);

/// Copies a CPU tensor to a device tensor, with any dtype and strides. Memory between the elements of `dst`
/// is read and written back.
void write_from_host(const at::Tensor& dst, const at::Tensor& value);

}  // namespace openreg
