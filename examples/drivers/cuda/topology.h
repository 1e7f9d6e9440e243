// The GPUs of the process, found without starting CUDA in it: after cuInit, a forked child cannot use CUDA.
#pragma once

#include "openreg/error.h"

#include <string>
#include <vector>

namespace nv {

struct Gpu {
  std::string name;
  size_t memory = 0;
  int major = 0;
  int minor = 0;
  int processors = 0;
};

/// The GPUs, in the order of CUDA.
orError_t find_gpus(std::vector<Gpu>& gpus);

}  // namespace nv
