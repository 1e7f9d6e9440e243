// Launches functions of the driver's kernel library (openreg/kernel_library.h) on tensors.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "device_code/library_functions.h"

#include <ATen/TensorIterator.h>
#include <c10/core/Scalar.h>
#include <openreg/kernel_library.h>

namespace openreg {

/// Whether an argument block can describe the operands of the iterator.
inline bool fits_library(const at::TensorIteratorBase& iter) {
  return iter.ndim() <= OR_KERNEL_DIMS && iter.ntensors() <= OR_KERNEL_OPERANDS;
}

/// The argument block for the operands of the iterator, which is not empty and fits.
orElementwiseArgs elementwise_args(const at::TensorIteratorBase& iter, const at::Scalar& scalar = 1);

/// Launches an element-wise function on the operands of the iterator. They are on the device and have the
/// dtypes of the function.
void launch_elementwise(orFunction_t function, const at::TensorIteratorBase& iter,
                        const at::Scalar& scalar = 1);

/// Copies between two tensors of a device with different dtypes or strides; `src` can be expanded to the
/// sizes of `dst`. Returns false if the driver has no function for it.
[[nodiscard]] bool launch_library_copy(const at::Tensor& dst, const at::Tensor& src);

}  // namespace openreg
