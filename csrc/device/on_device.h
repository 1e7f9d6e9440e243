// Whether a tensor is on the device.
#pragma once

#include "device/device.h"

#include <ATen/core/Tensor.h>

namespace openreg {

inline bool on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kDevice;
}

}  // namespace openreg
