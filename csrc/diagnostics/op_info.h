// Properties of an operator, for statistics and reports.
#pragma once

#include <cstddef>
#include <string>

namespace openreg {

/// Lives as long as the process.
struct OpDescription {
  std::string name;  // "aten::add.Tensor"
  size_t arguments = 0;
  size_t results = 0;
  bool launches = false;         // asynchronous: returns before the kernel has run
  bool is_view = false;          // touches no data
  bool has_cpu_kernel = false;   // runs on a CPU kernel; there is no device kernel
  bool depends_on_data = false;  // output shape or host value is data-dependent, on any device
};

}  // namespace openreg
