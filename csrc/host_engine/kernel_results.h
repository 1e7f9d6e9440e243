// Results of a kernel: CPU tensors that it made or changed, as device tensors. See Note [Pool-backed memory]
// in kernel_allocator.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace openreg {

/// Makes a device storage of a CPU storage that a kernel made. Memory from the device's pool is taken over,
/// and the CPU storage becomes its alias; host memory is copied.
c10::Storage take_ownership(const c10::Storage& made_by_kernel, c10::DeviceIndex device);

/// A device tensor over `storage` with the metadata of `like`.
at::Tensor device_tensor(c10::Storage storage, const at::Tensor& like);

/// After a kernel wrote to `alias` of `tensor`: if it has resized or conjugated it, the tensor follows.
/// Returns whether it was resized.
bool sync_metadata(const at::Tensor& tensor, const at::Tensor& alias);

}  // namespace openreg
