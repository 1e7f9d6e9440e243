// How many devices are simulated, and how large: from the environment, once.
#pragma once

#include "openreg/error.h"

#include <cstddef>

namespace openreg::sim {

inline constexpr int kMaxDevices = 64;

struct Config {
  int device_count = 2;
  size_t memory = size_t{8} << 30;  // of each device, in bytes; whole pages
};

/// OPENREG_DEVICE_COUNT (0 to 64) and OPENREG_MEMORY (bytes, or with K, M or G behind the number). A value
/// that cannot be understood is orErrorInvalidValue.
[[nodiscard]] orError_t read_config(Config& config);

}  // namespace openreg::sim
