// What statistics and reports need to know of an operator.
#pragma once

#include <cstddef>
#include <string>

namespace openreg {

/// Lives as long as the process.
struct OpInfo {
  std::string name;  // "aten::add.Tensor"
  size_t arguments = 0;
  size_t results = 0;
  bool launches = false;         // returns before it has run
  bool is_view = false;          // touches no data
  bool has_cpu_kernel = false;   // and none of the device's own
  bool depends_on_data = false;  // the number, or the host value, of its results does, on any device
};

}  // namespace openreg
