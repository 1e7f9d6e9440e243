// Reductions over strided operands: the output has strides of 0 in reduced dimensions.
#pragma once

#include "elementwise.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace openreg::discrete {

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

/// The accumulators start with `Start`, accumulate all elements in the type `Sum`, and are scaled.
template <typename T, typename Sum, auto Start, auto Op>
orError_t reduce(const orDiscreteLaunch* launch, const void* given) {
  auto args = *static_cast<const orElementwiseArgs*>(given);
  orElementwiseArgs outputs = args;  // each output once
  size_t count = 1;
  int64_t steps[OR_KERNEL_DIMS];  // of the accumulators, in bytes
  for (uint32_t dim = 0; dim < args.dims; ++dim) {
    const bool reduced = args.strides[0][dim] == 0;
    if (reduced) outputs.sizes[dim] = 1;
    steps[dim] = reduced ? 0 : static_cast<int64_t>(count * sizeof(Sum));
    if (!reduced) count *= static_cast<size_t>(args.sizes[dim]);
  }
  std::vector<Sum> sums(count, static_cast<Sum>(Start));
  std::copy_n(steps, args.dims, args.strides[0]);
  args.data[0] = reinterpret_cast<char*>(sums.data()) - launch->memory;
  for_each_element<2>(*launch, args, [](char** at) {
    auto& sum = *reinterpret_cast<Sum*>(at[0]);
    sum = Op(sum, static_cast<Sum>(load<T>(at[1])));
  });
  std::copy_n(steps, args.dims, outputs.strides[1]);
  outputs.data[1] = args.data[0];
  const Sum scale = std::is_floating_point_v<Compute<T>> ? static_cast<Sum>(args.scalar)
                                                         : static_cast<Sum>(args.int_scalar);
  for_each_element<2>(*launch, outputs,
                      [=](char** at) { store<T>(at[0], *reinterpret_cast<const Sum*>(at[1]) * scale); });
  return orSuccess;
}

}  // namespace openreg::discrete
