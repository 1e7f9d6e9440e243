// Kernel for copies between two tensors of one device with different dtypes or strides.
//
// Thread safety: launch_copy from any thread; set_copy_launcher before the first copy.
#pragma once

#include <ATen/core/Tensor.h>

namespace openreg {

/// Launches the copy on the current stream of the tensors' device, which is the current device.
void launch_copy(const at::Tensor& dst, const at::Tensor& src);

/// Replaces the implementation of launch_copy. The host engine launches copies as operators, without an
/// allocation.
void set_copy_launcher(void (*launcher)(const at::Tensor& dst, const at::Tensor& src));

}  // namespace openreg
