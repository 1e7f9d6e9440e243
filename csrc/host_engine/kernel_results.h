// Converts results of a CPU kernel to device tensors. See Note [Pool-backed memory] in kernel_allocator.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace openreg {

/// Makes a device storage from a CPU storage that a kernel allocated. Takes ownership of pool-backed memory,
/// and the CPU storage becomes its alias. Copies host memory.
c10::Storage take_ownership(const c10::Storage& made_by_kernel, c10::DeviceIndex device);

/// A device tensor over `storage` with the metadata of `like`.
at::Tensor device_tensor(c10::Storage storage, const at::Tensor& like);

/// After a kernel wrote to `alias` of `tensor`: copies sizes, strides, conjugate and negative bits, quantizer
/// and, if the kernel reallocated it, the memory to `tensor`. Returns whether it was resized.
bool sync_metadata(const at::Tensor& tensor, const at::Tensor& alias);

}  // namespace openreg
