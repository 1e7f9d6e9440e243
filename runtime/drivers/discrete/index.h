// Functions with an index; see orIndexArgs.
#pragma once

#include "elementwise.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace openreg::discrete {

/// Calls `body` with the addresses of the element of the dense operand and of the indexed one, for each
/// index. All indices are checked before the first call.
template <typename Body>
orError_t for_each_index(const orDiscreteLaunch& launch, const orIndexArgs& args, Body body) {
  orElementwiseArgs loop{};
  loop.dims = args.dims;
  std::copy_n(args.sizes, args.dims, loop.sizes);
  std::copy_n(args.index_strides, args.dims, loop.strides[0]);
  std::copy_n(args.dense_strides, args.dims, loop.strides[1]);
  std::copy_n(args.indexed_strides, args.dims, loop.strides[2]);
  loop.data[0] = const_cast<int64_t*>(args.index);
  loop.data[1] = args.dense;
  loop.data[2] = args.indexed;
  int64_t wrong = 0;
  for_each_element<1>(launch, loop, [&](char** at) {
    const int64_t index = load<int64_t>(at[0]);
    if (index < 0 || index >= args.indexed_size) wrong = index < 0 ? index : std::max(index, wrong);
  });
  if (wrong != 0 || args.indexed_size == 0) {
    std::snprintf(launch.why, launch.why_size,
                  "index out of range: %" PRId64 ", for a dimension of size %" PRId64, wrong,
                  args.indexed_size);
    return orErrorInvalidValue;
  }
  for_each_element<3>(launch, loop,
                      [&](char** at) { body(at[1], at[2] + load<int64_t>(at[0]) * args.indexed_stride); });
  return orSuccess;
}

template <typename T>
orError_t gather(const orDiscreteLaunch* launch, const void* given) {
  return for_each_index(*launch, *static_cast<const orIndexArgs*>(given),
                        [](char* dense, const char* indexed) { store<T>(dense, load<T>(indexed)); });
}

template <typename T>
orError_t scatter_add(const orDiscreteLaunch* launch, const void* given) {
  return for_each_index(
      *launch, *static_cast<const orIndexArgs*>(given),
      [](const char* dense, char* indexed) { store<T>(indexed, load<T>(indexed) + load<T>(dense)); });
}

}  // namespace openreg::discrete
