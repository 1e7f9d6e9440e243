// Functions of the driver's kernel library (openreg/kernel_library.h), for devices with code of their own.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <ATen/TensorIterator.h>
#include <c10/core/Scalar.h>
#include <openreg/kernel_library.h>

#include <string>

namespace openreg {

/// The name of a dtype in function names, or NULL.
const char* library_dtype(at::ScalarType dtype);

/// Whether the driver has the function.
bool has_library_function(c10::DeviceIndex device, const std::string& name);

/// Launches the function on the device's current stream. Returns false if the driver does not have it.
[[nodiscard]] bool launch_library_function(c10::DeviceIndex device, const std::string& name, const void* args,
                                           size_t size);

/// Launches an element-wise function on the operands of the iterator, which are on the device. Returns false
/// if the driver does not have it.
[[nodiscard]] bool launch_elementwise(c10::DeviceIndex device, const std::string& name,
                                      const at::TensorIteratorBase& iter, const at::Scalar& scalar = 1);

/// Copies between two tensors of the current device with different dtypes or strides. Returns false if the
/// driver has no function for it.
[[nodiscard]] bool launch_library_copy(const at::Tensor& dst, const at::Tensor& src);

}  // namespace openreg
