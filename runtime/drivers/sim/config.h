// Number and memory size of the simulated devices, read once from the environment.
#pragma once

#include "openreg/types.h"

#include <cstddef>

namespace openreg::sim {

inline constexpr int kMaxDevices = OR_MAX_DEVICES;

struct Config {
  int device_count = 2;
  size_t memory = size_t{8} << 30;  // of each device, in bytes; a multiple of the page size
};

/// Reads OPENREG_DEVICE_COUNT (0 to 64) and OPENREG_MEMORY (bytes, or with the suffix K, M or G). Returns
/// orErrorInvalidValue for an invalid value.
[[nodiscard]] orError_t read_config(Config& config);

}  // namespace openreg::sim
