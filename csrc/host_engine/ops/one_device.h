// Checks that all tensors of a call are on one device.
#pragma once

#include "device/device.h"
#include "host_engine/ops/op_traits.h"

namespace openreg {

/// Records in `index` that an argument is on `device`. `index` holds the device of the earlier arguments, or
/// -1. Throws CUDA's error if they differ.
inline void note_device(c10::DeviceIndex& index, c10::Device device, const OpTraits& traits) {
  TORCH_CHECK(index < 0 || index == device.index() || !traits.has(OpFlag::kIndexing),
              "indices should be either on cpu or on the same device as the indexed tensor (",
              c10::Device(kDevice, index), ")");
  TORCH_CHECK(index < 0 || index == device.index(),
              "Expected all tensors to be on the same device, but found "
              "at least two devices, ",
              c10::Device(kDevice, index), " and ", device, "! (when checking arguments of ", traits.name,
              ")");
  index = device.index();
}

}  // namespace openreg
