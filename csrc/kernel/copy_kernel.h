// The kernel that copies between two tensors of one device, with a change of dtype or strides.
//
// Thread safety: launch_copy from any thread; set_copy_launcher before the first copy.
#pragma once

#include <ATen/core/Tensor.h>

namespace openreg {

/// Launches the copy on the current stream of the tensors' device, which is the current device.
void launch_copy(const at::Tensor& dst, const at::Tensor& src);

/// Replaces how that is done. The host engine launches copies as it launches operators, without an
/// allocation.
void set_copy_launcher(void (*launcher)(const at::Tensor& dst, const at::Tensor& src));

}  // namespace openreg
