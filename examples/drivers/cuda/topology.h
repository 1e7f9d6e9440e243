// The GPUs of the process, found without CUDA: after cuInit, a forked child cannot use CUDA.
#pragma once

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

/// The GPUs in the order of CUDA. False: NVML cannot tell, and CUDA has to be asked.
bool find_gpus(std::vector<Gpu>& gpus);

}  // namespace nv
