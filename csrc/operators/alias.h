// Device tensors as CPU tensors over the same memory, and back.
//
// See Note [Aliases] in memory/block.h and Note [Born on the device] in memory/kernel_allocator.h.
#pragma once

#include "device/device.h"

#include <ATen/core/Tensor.h>

namespace openreg {

inline bool on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kDevice;
}

/// A CPU tensor over the kernel view of a strided device tensor: same sizes, strides, offset, dtype and bits.
/// `writes`: a kernel will write to it.
at::Tensor alias(const at::Tensor& tensor, bool writes);

/// Makes a device storage of a CPU storage that a kernel made. Memory from the device's pool is taken over,
/// and the CPU storage becomes its alias; host memory is copied.
c10::Storage adopt(const c10::Storage& made_by_kernel, c10::DeviceIndex device);

/// A device tensor over `storage` with the metadata of `like`.
at::Tensor device_tensor(c10::Storage storage, const at::Tensor& like);

/// After a kernel wrote to `alias` of `tensor`: if it has resized or conjugated it, the tensor follows.
/// Returns whether it was resized.
bool follow(const at::Tensor& tensor, const at::Tensor& alias);

/// Where an alias was. A kernel that needs more room than there is takes the alias' storage, which belongs to
/// a block and serves its later aliases, to other memory. If the kernel has failed, the tensor does not
/// follow.
struct AliasPlace {
  explicit AliasPlace(const at::Tensor& alias)
      : storage(alias.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()),
        data(storage->data()),
        bytes(storage->nbytes()) {}

  bool left() const { return storage->data() != data; }
  /// The storage is there again, as an alias that owns nothing.
  void restore() const;

  c10::StorageImpl* storage;  // kept by the alias
  const void* data;
  size_t bytes;
};

}  // namespace openreg
