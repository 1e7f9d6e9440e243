// Launches functions of the kernel library for operators: element-wise functions, fills, reductions, matrix
// products, indexing.
//
// Each function returns false if the driver lacks what the call needs; nothing was launched then.
// Thread safety: all functions may be called from any thread.
#pragma once

#include "device_code/kernel_library.h"

#include <ATen/core/Tensor.h>

namespace openreg {

enum class Order { Given, Swapped };  // of the two inputs of a binary function

/// The common dtype of the iterator is that of the function. Operands of other dtypes are converted, and
/// numbers on the host become operands.
[[nodiscard]] bool launch(LibraryFunction function, at::TensorIteratorBase& iter,
                          const at::Scalar& scalar = 1, Order order = Order::Given);

/// `out` has the dtype of the function. A sum is scaled.
[[nodiscard]] bool launch_reduction(LibraryFunction function, const at::Tensor& self, const at::Tensor& out,
                                    at::OptionalIntArrayRef dims, bool keepdim, double scale = 1);

/// c = alpha * (a @ b) + beta * c; a and b have two dimensions, or three with a batch.
[[nodiscard]] bool launch_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                                 const at::Scalar& alpha, const at::Scalar& beta);

/// gather or scatter_add. `dense` has an element for each index; `index` has the same number of dimensions as
/// `indexed`, and the sizes of the loop.
[[nodiscard]] bool launch_index(LibraryFunction function, const at::Tensor& index, int64_t dim,
                                const at::Tensor& dense, const at::Tensor& indexed);

/// The value is converted as a C cast does.
[[nodiscard]] bool launch_fill(const at::Tensor& self, const at::Scalar& value);

/// A number as a tensor without dimensions, on the device. Asynchronous, also in a capture.
at::Tensor number_on_device(const at::Scalar& number, at::ScalarType dtype, c10::Device device);

/// The dtype in which composites compute: float32 for float16 and bfloat16.
inline at::ScalarType compute_dtype(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype;
}
inline at::Tensor widened(const at::Tensor& tensor) {
  return tensor.to(compute_dtype(tensor.scalar_type()));
}

}  // namespace openreg
