// Numbers in device memory, as operands of library functions that have no argument for a number.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace openreg {

/// The address of the number 1 of a dtype of the kernel library. NULL if the numbers are not on this device
/// yet, and cannot be stored now: during a capture, and without memory.
void* device_one(at::ScalarType dtype, c10::DeviceIndex device);

/// The same for -0; an integer is 0. Adding -0 does not change any number.
void* device_negative_zero(at::ScalarType dtype, c10::DeviceIndex device);

}  // namespace openreg
