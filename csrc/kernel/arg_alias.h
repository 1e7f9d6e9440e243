// Kernel arguments: CPU tensors that alias the memory of device tensors. See Note [Aliases] in
// memory/pool/block.h.
#pragma once

#include "device/on_device.h"

#include <ATen/core/Tensor.h>

namespace openreg {

/// A CPU tensor over the kernel view of a strided device tensor, with the same sizes, strides, offset, dtype
/// and conj/neg bits. `writes`: a kernel will write to it.
at::Tensor alias(const at::Tensor& tensor, bool writes);

/// The original place of an alias. A kernel that resizes an argument moves the alias' storage to other
/// memory. That storage belongs to a block and serves later aliases. If the kernel fails, the device tensor
/// keeps its memory, and restore() resets the alias' storage.
struct AliasPlace {
  explicit AliasPlace(const at::Tensor& alias)
      : storage(alias.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()),
        data(storage->data()),
        bytes(storage->nbytes()) {}

  /// Whether the kernel moved the storage.
  bool left() const { return storage->data() != data; }
  /// Resets the storage to the original memory, without ownership.
  void restore() const;

  c10::StorageImpl* storage;  // owned by the alias
  const void* data;
  size_t bytes;
};

}  // namespace openreg
