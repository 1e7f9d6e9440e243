// Memory that a transport sends from and receives into.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace openreg::distributed {

/// Contiguous memory that kernels can access.
struct Bytes {
  void* data = nullptr;
  size_t size = 0;
  at::Tensor owner{};  // kept while Gloo may access the memory
};

inline Bytes bytes_of(const at::Tensor& contiguous) {
  return {const_cast<void*>(contiguous.const_data_ptr()), contiguous.nbytes(), contiguous};
}

}  // namespace openreg::distributed
