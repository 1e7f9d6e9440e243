// Arguments of a kernel: device tensors as CPU tensors over the same memory. See Note [Aliases] in
// memory/pool/block.h.
#pragma once

#include "device/on_device.h"

#include <ATen/core/Tensor.h>

namespace openreg {

/// A CPU tensor over the kernel view of a strided device tensor: same sizes, strides, offset, dtype and bits.
/// `writes`: a kernel will write to it.
at::Tensor alias(const at::Tensor& tensor, bool writes);

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
