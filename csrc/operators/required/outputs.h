// Outputs of operators: allocation without the dispatcher, and the checks of given outputs that PyTorch makes
// for its own devices.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

namespace openreg {

/// A new tensor on the device of `options`. Empty strides: contiguous, or in the memory format of `options`.
at::Tensor allocate_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);

/// Checks the dtype and device of the tensor of an out form, and resizes it.
void resize_given_output(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                         const at::TensorOptions& options);

/// Checks that the tensor of an in-place form can hold the result.
void check_in_place(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace openreg
