// Arguments that an operator of PyTorch writes although its schema does not say so.
#pragma once

#include <c10/util/ArrayRef.h>

#include <array>
#include <string_view>

namespace openreg {

/// The indices of these arguments. `name` has no overload name: "aten::native_batch_norm".
inline c10::ArrayRef<size_t> unannotated_writes(std::string_view name) {
  struct Writes {
    std::string_view name;
    std::array<size_t, 2> arguments;
  };
  static constexpr Writes kRunningStatistics[] = {
      {"aten::native_batch_norm", {3, 4}},
      {"aten::batch_norm_update_stats", {1, 2}},
  };
  for (const Writes& writes : kRunningStatistics) {
    if (writes.name == name) {
      return writes.arguments;
    }
  }
  return {};
}

}  // namespace openreg
